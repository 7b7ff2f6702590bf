# slrlab needs only python3 (>= 3.11) and make; everything else is installed into .venv
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= results
# many processes start: where bytecode is never written, each would compile every library again
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help reproduce test test-all test-slow test-portable test-extras lint tables docs bench release clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/core: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "slrlab needs Python 3.11 or newer"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/explorer: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev,explorer]'
	@touch $@

$(VENV)/extras: $(VENV)/explorer
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev,explorer,browser,retrieval]'
	@touch $@

reproduce: $(VENV)/core ## reproduce the paper's results (quick profile) into one HTML report
	$(BIN)/slrlab reproduce --out $(OUT)

# a process for each core; inside it threads wait asleep, else they take the cores from each other
test test-all test-slow test-portable test-extras: export OMP_WAIT_POLICY := passive
test test-all test-slow test-portable test-extras: export OPENBLAS_NUM_THREADS := 1
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

test: $(VENV)/dev ## run the tests that are not marked slow
	$(PYTEST) -m 'not slow and not extra'

test-all: $(VENV)/extras ## run all tests
	$(PYTEST)

test-slow: $(VENV)/dev ## run the tests that are marked slow
	$(PYTEST) -m 'slow and not extra'

test-portable: $(VENV)/dev ## run fast tests as older processors would, and with all cores busy
	$(BIN)/python tests/portable.py

test-extras: $(VENV)/extras ## run the tests that need an optional extra; those of the explorer also a Chromium
	$(PYTEST) -m extra

lint: $(VENV)/dev ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tables: $(VENV)/core ## compute the stored tables of the explorer again
	$(BIN)/python -m slrlab.experiments.stored

docs: $(VENV)/explorer ## build the documentation into site/
	rm -rf site docs/gallery
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html -d $(VENV)/doctrees docs site
	$(BIN)/slrlab explore --static site/explorer

bench: $(VENV)/dev ## run the benchmarks (ratios, not seconds)
	for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

release: $(VENV)/dev ## build wheel and sdist into dist/, and try both with the lowest and newest versions
	$(BIN)/python tests/release.py

clean: ## remove what the commands above made
	rm -rf $(VENV) $(OUT) site docs/gallery dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

"""Types as a user meets them: the pages and examples pass ``mypy --strict`` as user code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slrlab

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])

# the package itself is checked by `make lint`; packages without types are the user's business
CONFIG = """
[mypy]
strict = True
[mypy-slrlab.*]
ignore_errors = True
[mypy-sklearn.*,numba.*,threadpoolctl,distributed.*]
ignore_missing_imports = True
follow_imports = skip
"""

ACCEPTED = """
import numpy as np
from slrlab import LengthLaw, LengthLike, MaxSLR, SpikedSLR, make_task


def mean(length: LengthLike) -> float:
    return MaxSLR(2, length).length.mean


SpikedSLR(signal=2.0, length="1,2,3")
MaxSLR(2.0, 3)
MaxSLR(np.inf, [1, 2], noise=0.1)
SpikedSLR(np.float64(2.0), np.arange(1, 4))
SpikedSLR(2.0, {1: 0.5, 2: 0.5})
SpikedSLR(2.0, np.int64(3))
make_task("max", signal=2.0, length=range(1, 4))
SpikedSLR(2.0, LengthLaw.poisson(5.0))
"""

REFUSED = """
from slrlab import SpikedSLR

SpikedSLR(2.0, None)
SpikedSLR("2", 3)
SpikedSLR(2.0)
SpikedSLR(2.0, 3).signal = 3.0
"""


def mypy(folder, files):
    """Return what mypy says about files of a user's project."""
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", *files],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(Path(slrlab.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode < 2, done.stdout + done.stderr
    return done.stdout.splitlines()


def page_code(page):
    """Return the python blocks of a page as one module: they share a namespace."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    return "\n".join(blocks)


@pytest.mark.slow
def test_pages_and_examples_are_well_typed_user_code(tmp_path):
    files = {"accepted.py": ACCEPTED, "refused.py": REFUSED}
    for page in PAGES:
        name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
        files[f"page_{name}.py"] = page_code(page)
    for example in sorted((ROOT / "examples").glob("*.py")):
        files[f"example_{example.name}"] = example.read_text(encoding="utf-8")
    said = mypy(tmp_path, {name: text for name, text in files.items() if text.strip()})
    refused = [int(line.split(":")[1]) for line in said if line.startswith("refused.py")]
    assert [line for line in said if not line.startswith("refused.py")] == []
    assert sorted(refused) == [4, 5, 6, 7]


def test_every_form_of_length_is_accepted_when_it_runs():
    exec(compile(ACCEPTED, "accepted", "exec"), {})
    assert (Path(slrlab.__file__).parent / "py.typed").exists()

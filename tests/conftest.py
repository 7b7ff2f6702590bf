"""Shared settings: a quiet backend, repeatable property tests, reference numbers, compilation."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import settings

mpl.use("agg")
# the tests run in a process for each core; starting others takes longer than small work in them
os.environ.setdefault("SLRLAB_WORKERS", "1")
settings.register_profile("slrlab", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("slrlab")

DATA = Path(__file__).parent / "data"


def _compile_channel():
    from slrlab import SpikedSLR, erm_theory

    erm_theory(SpikedSLR(2.0, 2), "linear", alpha=4.0, ridge_k=1.0, ridge_v=1.0, tolerance=0.1)


def _compile_training(dtype):
    from slrlab import SpikedSLR, draw_dataset, sgd, simulate_erm

    task, small = SpikedSLR(2.0, 2), {"alpha": 2.0, "ridge_k": 1.0, "ridge_v": 1.0, "dim": 10}
    simulate_erm(task, "linear", seeds=1, test_samples=10, dtype=dtype, **small)
    sgd(draw_dataset(task, dim=10, samples=10, dtype=dtype), "linear", rate=0.1, epochs=1)


def _compile_sample():
    from slrlab import SpikedSLR, sgd_flow

    sgd_flow(SpikedSLR(2.0, 2), "linear", rate=0.1, time=0.1, samples=64)


def _compile_heads():
    from slrlab import MultiHeadSLR, specialisation

    task = MultiHeadSLR(4.0, 2, directions=2)
    specialisation(task, "softmax", heads=2, dim=10, time=0.1, record=2, samples=64)


KERNELS = (  # in turns for the processes, so that all take about as long
    _compile_channel,
    partial(_compile_training, "float32"),
    _compile_sample,
    _compile_heads,
    partial(_compile_training, "float64"),
)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(request):
    """In a long run each process first compiles its share; the cache has the rest for it."""
    process, count = (os.environ.get(f"PYTEST_XDIST_WORKER{end}") for end in ("", "_COUNT"))
    if process and len(request.session.items) > 100:
        for compile_kernel in KERNELS[int(process[2:]) :: int(count)]:
            compile_kernel()


@pytest.fixture(autouse=True)
def _closed_figures():
    """Close what a test has drawn."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def _reference(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="session")
def population_reference():
    return _reference("population.json")


@pytest.fixture(scope="session")
def bayes_reference():
    return _reference("bayes.json")


@pytest.fixture(scope="session")
def erm_reference():
    return _reference("erm.json")

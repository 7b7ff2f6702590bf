"""Shared settings: a quiet backend, repeatable property tests, the reference numbers."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import settings

mpl.use("agg")
settings.register_profile("slrlab", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("slrlab")

DATA = Path(__file__).parent / "data"


def _reference(name):
    return json.loads((DATA / name).read_text())["cases"]


@pytest.fixture(scope="session")
def population_reference():
    return _reference("population.json")


@pytest.fixture(scope="session")
def bayes_reference():
    return _reference("bayes.json")


@pytest.fixture(scope="session")
def erm_reference():
    return _reference("erm.json")

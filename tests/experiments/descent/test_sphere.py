"""Training on the sphere from several starts: flow against descent on fresh sequences."""

import json

import numpy as np
import pytest

from slrlab import MarionSLR, Sphere, compare_sphere, sphere_training

TASK = MarionSLR(20.0, 4, relevant_std=0.8)


@pytest.fixture(scope="module")
def trained():
    given = {"scale": 0.4, "dim": 40, "time": 1.5, "rate": 0.002, "batch": 40, "record": 16}
    return sphere_training(TASK, **given, seeds=4)


def test_descent_from_random_starts_has_the_overlaps_of_the_flow(trained):
    for name, gap in trained.gaps.items():
        assert abs(gap.value) < 0.02 + 3.5 * gap.error, name
    moved = [np.ptp(flow.m_vv) for flow in trained.flows]
    assert min(moved) > 0.05  # there is something to agree on


def test_what_it_tells(trained):
    shown = json.loads(json.dumps(trained.to_dict()))
    assert {"kappa", "nu_descent", "oracle_risk", "matched"} <= shown.keys()
    assert trained.to_frame().groupby("method").size().to_dict() == {"descent": 64, "flow": 64}
    assert "4 starts in 40 dimensions" in str(trained)
    kappa = trained.last("kappa", simulated=True)
    assert 0.0 <= kappa.value <= 1.0


def test_one_path_quantity_by_quantity():
    both = compare_sphere(TASK, dim=40, sphere=Sphere(0.3), time=1.0, start="manifold", rate=0.02)
    assert both.worst < 0.15
    with pytest.raises(ValueError, match=r"^size must not be given on the sphere, got 1.0$"):
        compare_sphere(TASK, dim=40, sphere=Sphere(0.3), size=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": "informed"}, r"^start must be one of random, manifold, got informed$"),
        ({"seeds": 0}, r"^seeds must be a whole number >= 1, got 0$"),
        ({"scale": 0.0}, r"^scale must be a finite number > 0, got 0.0$"),
        ({"rate": -1.0}, r"^rate must be a finite number > 0, got -1.0$"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        sphere_training(TASK, **({"scale": 0.3, "dim": 40, "time": 1.0} | change))

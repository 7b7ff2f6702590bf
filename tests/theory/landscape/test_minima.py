import math
from types import SimpleNamespace

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, local_minima, make_activation, minimal_risk
from slrlab._result import Status
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.theory.landscape.minima import Kind, kind_of
from slrlab.theory.landscape.reduced import ReducedRisk
from slrlab.theory.landscape.risk import make_landscape

ACTIVATIONS = ["softmax", "linear", "erf", "softplus"]


def test_a_descent_that_jumps_keep_from_a_flat_point_ends():
    points = []

    def risk(y):  # its gradient is never small
        points.append(y)
        return float(np.abs(y).sum()), np.where(y >= 0.0, 1.0, -1.0)

    reduced = ReducedRisk(SimpleNamespace(smooth=False), learn_bias=False)
    start = np.array([0.4, -0.3, 0.2])
    limits = {"outside": lambda _: False, "tolerance": 1e-5, "radius": 100.0}
    assert np.abs(reduced.minimise(risk, start, **limits)).max() < 1e-2
    assert len(points) < 1000  # 238 seen; all steps of the optimiser were 4207


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_two_minima_of_spiked_slr(name, simulated_risk):
    task = SpikedSLR(2.0, 10)
    search = local_minima(task, name, starts=4)
    matched, mismatched = search.best("matched"), search.best("mismatched")
    assert matched.risk == pytest.approx(minimal_risk(task, name).risk, abs=1e-9)
    assert matched.status is Status.CONVERGED
    assert matched.order.m_kv == pytest.approx(0.0, abs=1e-5)
    assert (matched.curvatures > 0.0).all()
    assert mismatched.risk > matched.risk + 0.05
    assert search.minima[0] is matched
    if name == "linear":
        # (1 + χ)z with endless χ: the constant is outgrown, and f = c Σ z*χ* is left
        assert mismatched.at_infinity
        assert mismatched.risk == pytest.approx(1.0 - 2.0 / 12.0, abs=1e-4)
    else:
        assert mismatched.status is Status.CONVERGED
        assert (mismatched.curvatures > 0.0).all()
        assert mismatched.order.m_kv * mismatched.order.m_vk > 0.0
        vectors = mismatched.order.vectors()
        simulated = simulated_risk(task, name, *vectors, mismatched.bias)
        assert abs(simulated.z_score(mismatched.risk)) < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "erf"])
def test_the_two_minima_of_max_slr(name):
    task = MaxSLR(2.0, 10)
    search = local_minima(task, name, starts=4)
    assert search.best("matched").risk == pytest.approx(minimal_risk(task, name).risk, abs=1e-9)
    assert search.best("mismatched").risk > search.best("matched").risk


@pytest.mark.slow
def test_random_starts_find_no_third_minimum_of_softmax():
    search = local_minima(SpikedSLR(2.0, 10), "softmax", starts=16, seed=3)
    assert [item.kind for item in search.minima] == [Kind.MATCHED, Kind.MISMATCHED]
    assert sum(item.starts for item in search.minima) == 16
    frame = search.to_frame()
    assert list(frame["kind"]) == ["matched", "mismatched"]
    assert (frame["softest"] > 0.0).all()
    assert search.best("other") is None


def test_hessian_is_the_second_derivative_of_the_risk():
    task = SpikedSLR(2.0, 4)
    landscape = make_landscape(task, make_activation("erf").with_bias(-0.5), resolution=1.0)
    point = np.array([0.5, 0.2, 0.3, 0.0, 0.1, 0.6, 0.1, 0.2, -0.5])
    hessian = ReducedRisk(landscape, learn_bias=True).hessian(point[:4], point[4:8], -0.5)

    def risk(y):
        return landscape(y[:4], y[4:8], y[8]).risk

    step = 1e-3
    for i in range(9):
        for j in range(i + 1):
            a, b = step * np.eye(9)[i], step * np.eye(9)[j]
            corners = (risk(point + a + b) - risk(point + a - b) - risk(point - a + b)) + risk(
                point - a - b
            )
            assert hessian[i, j] == pytest.approx(corners / (4.0 * step**2), abs=2e-5)


def test_descent_stays_in_its_basin():
    task = SpikedSLR(10.0, 10)
    landscape = make_landscape(task, make_activation("softmax"))
    for start, kind in (((3.0, 0.5), Kind.MATCHED), ((0.3, 2.5), Kind.MISMATCHED)):
        reduced = ReducedRisk(landscape, learn_bias=False)
        candidate = reduced.descend(np.array([*start, 0.1, 0.0]), 0.0)
        order = FullOrderParameters.of(
            *(2.0 * np.stack([candidate.k, candidate.v, *np.eye(4)[:2]]))
        )
        assert kind_of(order) is kind
        assert candidate.gradient_norm < 1e-6


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (FullOrderParameters(1.0, 0.1, 0.0, 1.0, 1.2, 0.0, 1.1), Kind.MATCHED),
        (FullOrderParameters(0.1, 1.0, 1.0, 0.1, 1.2, 0.0, 1.1), Kind.MISMATCHED),
        (FullOrderParameters(0.1, -1.0, -1.0, 0.1, 1.2, 0.0, 1.1), Kind.MISMATCHED),
        (FullOrderParameters(-1.0, 0.1, 0.0, -1.0, 1.2, 0.0, 1.1), Kind.OTHER),
        (FullOrderParameters(0.1, 0.1, 0.0, 1.0, 1.2, 0.0, 1.1), Kind.OTHER),
    ],
)
def test_kinds(order, kind):
    assert kind_of(order) is kind


def test_bad_input():
    task = SpikedSLR(2.0, 3)
    with pytest.raises(ValueError, match="starts must be a whole number >= 4, got 2"):
        local_minima(task, "softmax", starts=2)
    with pytest.raises(ValueError, match="signal must be at most 10000"):
        local_minima(SpikedSLR(math.inf, 3), "softmax")
    with pytest.raises(ValueError, match="kind must be one of matched, mismatched, other"):
        local_minima(task, "linear", starts=4).best("wrong")

"""Ranges of signals in which mismatched minima exist."""

import math

import numpy as np
import pytest
from scipy import optimize

from slrlab import SpikedSLR, make_activation, minimum_branches, minimum_from, risk_and_gradient
from slrlab.theory.landscape.risk import make_landscape

BOX = 0.3


def stays(branch, length, activation, index, factor):
    """Whether a descent of SciPy from an end of a branch, at a signal near it, stays in a box."""
    chosen = make_activation(activation)
    bias, signal = float(branch.bias[index]), factor * float(branch.signals[index])
    free = chosen.bias is None
    landscape = make_landscape(SpikedSLR(signal, length), chosen.with_bias(bias), resolution=1.0)

    def risk(x):
        slope = landscape.at_best_values(np.array([*x[:3], 0.0]), x[3])[1]
        return slope.risk, np.array([*slope.k[:3], slope.bias if free else 0.0])

    start = np.array([branch.m_kk[index], branch.m_kv[index], 0.01, bias])
    box = [(x - BOX, x + BOX) for x in start]
    settings = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 300}
    end = optimize.minimize(risk, start, jac=True, method="L-BFGS-B", bounds=box, options=settings)
    return bool(np.abs(end.x - start).max() < 0.99 * BOX)


def check_ends(branches, length, activation):
    """At each end that is not one of the range the minimum is there on one side, not on both."""
    for branch in branches:
        for index, inside, end in ((0, 1.005, branch.ends[0]), (-1, 0.995, branch.ends[1])):
            if str(end) in ("fold", "plane"):
                assert stays(branch, length, activation, index, inside)
                assert not stays(branch, length, activation, index, 1.0 / inside)


def test_ends_do_not_depend_on_the_steps():
    task = SpikedSLR(1.0, 10)
    given = {"signals": (0.15, 0.5), "anchors": 2}
    coarse, fine = (minimum_branches(task, "erf", step=step, **given) for step in (0.6, 0.04))
    assert [tuple(map(str, b.ends)) for b in coarse] == [("range", "fold"), ("fold", "range")]
    assert (coarse[0].low, coarse[1].high) == (0.15, 0.5)
    check_ends(coarse, 10, "erf")
    for a, b in zip(coarse, fine, strict=True):
        assert a.signals.size <= b.signals.size
        assert a.low == pytest.approx(b.low, rel=1e-5)
        assert a.high == pytest.approx(b.high, rel=1e-5)
        assert a.risk[[0, -1]] == pytest.approx(b.risk[[0, -1]], abs=1e-6)


def test_points_of_a_branch_are_minima_until_a_curvature_is_zero():
    (branch,) = minimum_branches(SpikedSLR(1.0, 3), "erf", signals=(0.4, 1.0), anchors=2)
    assert branch.ends == ("fold", "range")
    softest = []
    for i in range(branch.signals.size):
        start = [branch.m_kk[i], branch.m_kv[i], 0.0, 0.0]
        task = SpikedSLR(float(branch.signals[i]), 3)
        minimum = minimum_from(task, "erf", start, bias=float(branch.bias[i]))
        order = minimum.order
        here = risk_and_gradient(task, "erf", order, bias=minimum.bias)
        assert here.gradient_norm < 1e-6
        assert minimum.risk == pytest.approx(branch.risk[i], abs=1e-8)
        softest.append(minimum.curvatures[0])
    assert abs(softest[0]) < 1e-5
    assert (np.diff(softest) > 0.0).all()


def test_two_minima_of_one_kind_at_one_signal():
    task = SpikedSLR(1.3, 100)
    low, high = minimum_branches(task, "erf", signals=(1.2, 1.45), anchors=2, resolution=0.8)
    assert (str(low.ends[1]), str(high.ends[0])) == ("fold", "fold")
    assert high.low < 1.3 < low.high
    check_ends((low, high), 100, "erf")
    both = [np.interp(1.3, branch.signals, branch.risk) for branch in (low, high)]
    minimum = minimum_from(task, "erf", "mismatched", curvatures=False)
    assert minimum.risk == pytest.approx(min(both), abs=1e-5)


def test_a_minimum_that_keys_leave_the_plane_from():
    (branch,) = minimum_branches(SpikedSLR(1.0, 10), "softmax", signals=(0.8, 1.2), anchors=2)
    assert branch.ends == ("plane", "range")
    check_ends([branch], 10, "softmax")
    start = [branch.m_kk[0], branch.m_kv[0], 0.01, 0.0]
    below, above = (
        minimum_from(SpikedSLR(factor * branch.low, 10), "softmax", start, curvatures=False)
        for factor in (0.995, 1.005)
    )
    assert (below.kind, above.kind) == ("matched", "mismatched")


@pytest.mark.slow
def test_keys_are_followed_to_one_length_whatever_the_steps():
    given = {"signals": (0.9, 1.1), "anchors": 2, "longest": 20.0, "resolution": 0.8}
    coarse, fine = (
        minimum_branches(SpikedSLR(1.0, 100), "softplus", step=step, **given)[0]
        for step in (0.6, 0.25)
    )
    assert coarse.ends == fine.ends == ("range", "infinity")
    assert coarse.m_kv[-1] == pytest.approx(20.0, rel=1e-6)
    assert coarse.high == pytest.approx(fine.high, rel=1e-5)


def linear_risk(signal, length, k):
    """Closed form at the best values ``v`` in the plane of ``k*`` and ``v*``, term by term."""
    root, others = math.sqrt(signal), length - 1
    a, kk = root * k[0], k @ k

    def square(v):  # E f² of f = Σ (1 + x·k)(x·v), the relevant token shifted by √ν along k*
        b, kv, vv = root * v[0], k @ v, v @ v
        relevant = (1 + a) ** 2 * (b**2 + vv) + 4 * (1 + a) * b * kv + kk * b**2
        relevant += kk * vv + 2 * kv**2
        every = vv + kk * vv + 2 * kv**2
        cross = 2 * ((1 + a) * b + kv) * kv + (others - 1) * kv**2
        return relevant + others * (every + cross)

    one, two = np.eye(2)
    mixed = (square(one + two) - square(one) - square(two)) / 2.0
    label = np.array([root * k[1], 1 + a])  # E[y f] = label·v
    return 1.0 - label @ np.linalg.solve([[square(one), mixed], [mixed, square(two)]], label)


def above_its_limit(signal, length=10, m_kv=80.0):
    """How far the best risk at long keys lies above what it tends to as they grow: L/(L+ν)."""
    given = {"bounds": (-5.0, 5.0), "method": "bounded", "options": {"xatol": 1e-10}}
    best = optimize.minimize_scalar(
        lambda m_kk: linear_risk(signal, length, np.array([m_kk, m_kv])), **given
    )
    return best.fun - length / (length + signal)


def test_linear_attention_falls_to_infinity_from_a_signal_on():
    (branch,) = minimum_branches(SpikedSLR(1.0, 10), "linear", signals=(0.1, 10.0), anchors=3)
    assert branch.at_infinity
    assert branch.ends == ("infinity", "range")
    # below this signal long keys have less than the limit, and shrink; the search tries keys of
    # length 20, where the edge is off by 1.8e-4
    assert branch.low == pytest.approx(optimize.brentq(above_its_limit, 0.2, 0.4), abs=3e-4)
    assert branch.risk == pytest.approx(10.0 / (10.0 + branch.signals), abs=1e-5)
    assert "to 10 (range)" in str(branch)


def test_bad_input():
    task = SpikedSLR(1.0, 3)
    with pytest.raises(ValueError, match="signals must be two increasing numbers"):
        minimum_branches(task, "erf", signals=(2.0, 1.0))
    with pytest.raises(ValueError, match="signals must be a finite number > 0, got 0"):
        minimum_branches(task, "erf", signals=(0.0, 1.0))
    with pytest.raises(ValueError, match="anchors must be a whole number >= 2, got 1"):
        minimum_branches(task, "erf", anchors=1)
    with pytest.raises(ValueError, match="activation must be smooth to be followed"):
        minimum_branches(task, "sparsemax")

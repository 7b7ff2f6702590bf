"""Ranges of signals in which mismatched minima exist."""

import numpy as np
import pytest

from slrlab import SpikedSLR, minimum_branches, minimum_from, risk_and_gradient


def ends(branches):
    return [(round(b.low, 4), round(b.high, 4), *map(str, b.ends)) for b in branches]


def test_ends_do_not_depend_on_the_steps():
    task = SpikedSLR(1.0, 10)
    given = {"signals": (0.15, 0.5), "anchors": 2}
    coarse, fine = (minimum_branches(task, "erf", step=step, **given) for step in (0.6, 0.04))
    assert ends(coarse) == [(0.15, 0.1587, "range", "fold"), (0.2425, 0.5, "fold", "range")]
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
        found = minimum_from(task, "erf", start, bias=float(branch.bias[i]))
        order = found.order
        here = risk_and_gradient(task, "erf", order, bias=found.bias)
        assert here.gradient_norm < 1e-6
        assert found.risk == pytest.approx(branch.risk[i], abs=1e-8)
        softest.append(found.curvatures[0])
    assert abs(softest[0]) < 1e-5
    assert (np.diff(softest) > 0.0).all()


def test_two_minima_of_one_kind_at_one_signal():
    task = SpikedSLR(1.3, 100)
    low, high = minimum_branches(task, "erf", signals=(1.2, 1.45), anchors=2, resolution=0.8)
    assert (str(low.ends[1]), str(high.ends[0])) == ("fold", "fold")
    assert high.low == pytest.approx(1.2232, abs=1e-3)
    assert low.high == pytest.approx(1.3854, abs=1e-3)
    both = [np.interp(1.3, branch.signals, branch.risk) for branch in (low, high)]
    found = minimum_from(task, "erf", "mismatched", curvatures=False)
    assert found.risk == pytest.approx(min(both), abs=1e-5)


def test_a_minimum_that_keys_leave_the_plane_from():
    (branch,) = minimum_branches(SpikedSLR(1.0, 10), "softmax", signals=(0.8, 1.2), anchors=2)
    assert branch.ends == ("plane", "range")
    assert branch.low == pytest.approx(0.9124, abs=1e-3)
    start = [branch.m_kk[0], branch.m_kv[0], 0.01, 0.0]
    below, above = (
        minimum_from(SpikedSLR(factor * branch.low, 10), "softmax", start, curvatures=False)
        for factor in (0.995, 1.005)
    )
    assert (below.kind, above.kind) == ("matched", "mismatched")


def test_keys_are_followed_to_one_length_whatever_the_steps():
    given = {"signals": (0.9, 1.1), "anchors": 2, "longest": 20.0, "resolution": 0.8}
    coarse, fine = (
        minimum_branches(SpikedSLR(1.0, 100), "softplus", step=step, **given)[0]
        for step in (0.6, 0.25)
    )
    assert coarse.ends == fine.ends == ("range", "infinity")
    assert coarse.m_kv[-1] == pytest.approx(20.0, rel=1e-6)
    assert coarse.high == pytest.approx(fine.high, rel=1e-5)


def test_linear_attention_falls_to_infinity_from_a_signal_on():
    (branch,) = minimum_branches(SpikedSLR(1.0, 10), "linear", signals=(0.1, 10.0), anchors=3)
    assert branch.at_infinity
    assert branch.ends == ("infinity", "range")
    assert branch.low == pytest.approx(0.2737, abs=1e-3)
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

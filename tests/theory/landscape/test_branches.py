"""Minima followed from task to task."""

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, local_minima, make_activation, minimal_risk
from slrlab.theory.landscape.branches import follow_minimum, minimum_from
from slrlab.theory.landscape.risk import make_landscape

ACTIVATIONS = ("softmax", "linear", "erf", "softplus")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("task", [SpikedSLR(0.5, 10), SpikedSLR(4.0, 10), MaxSLR(2.0, 10)])
def test_the_matched_minimum_is_the_minimal_risk(task, activation):
    minimum = minimum_from(task, activation, "matched", curvatures=False)
    assert minimum.status == "converged"
    assert minimum.kind == "matched"
    assert minimum.risk == pytest.approx(minimal_risk(task, activation).risk, abs=1e-7)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_both_minima_are_those_of_a_search(activation):
    task = SpikedSLR(2.0, 10)
    searched = local_minima(task, activation, starts=4)
    for kind in ("matched", "mismatched"):
        minimum, known = minimum_from(task, activation, kind), searched.best(kind)
        assert minimum.at_infinity == known.at_infinity
        assert minimum.risk == pytest.approx(known.risk, abs=1e-4 if minimum.at_infinity else 1e-7)
        if not minimum.at_infinity:
            assert np.allclose(minimum.curvatures, known.curvatures, atol=1e-4)


@pytest.mark.parametrize(("signal", "length"), [(0.5, 10), (2.0, 10), (2.0, 3), (30.0, 100)])
def test_linear_attention_falls_to_a_limit_at_infinity(signal, length):
    """``f → c Σ χ*_ℓ z*_ℓ`` has risk ``L/(L+ν)`` at the best ``c``."""
    minimum = minimum_from(SpikedSLR(signal, length), "linear", "mismatched", curvatures=False)
    assert minimum.at_infinity
    assert minimum.risk == pytest.approx(length / (length + signal), abs=1e-6)


def test_following_agrees_with_searching_and_ends_where_the_minimum_does():
    signals = [4.0, 2.0, 1.2, 0.7, 0.4]
    tasks = [SpikedSLR(signal, 10) for signal in signals]
    minima = follow_minimum(tasks, "softmax", "mismatched", curvatures=False)
    assert [item is not None for item in minima] == [True, True, True, False, False]
    for task, item in zip(tasks[:3], minima, strict=False):
        alone = minimum_from(task, "softmax", "mismatched", curvatures=False)
        assert item.risk == pytest.approx(alone.risk, abs=1e-8)
        assert item.kind == "mismatched"


def test_a_search_finds_a_minimum_with_a_narrow_basin(simulated_risk):
    task = SpikedSLR(0.5, 10)
    minimum = minimum_from(task, "erf", "mismatched")
    assert minimum.kind == "mismatched"
    assert minimum.status == "converged"
    simulated = simulated_risk(task, "erf", *minimum.order.vectors(), minimum.bias)
    assert abs(simulated.z_score(minimum.risk)) < 3.5
    assert (minimum.curvatures > 0.0).all()


@pytest.mark.parametrize("ratio", [1.6, 2.0, 2.7])
def test_a_followed_minimum_ends_at_one_signal_whatever_the_steps(ratio):
    # test_ranges shows that the minimum exists down to 0.2425
    signals = [2.0 / ratio**i for i in range(6)]
    tasks = [SpikedSLR(signal, 10) for signal in signals]
    minima = follow_minimum(tasks, "erf", "mismatched", curvatures=False, resolution=0.8)
    assert [item is not None for item in minima] == [signal > 0.2425 for signal in signals]


def test_keys_lead_to_the_minimum_below():
    task = SpikedSLR(2.0, 10)
    minimum = minimum_from(task, "softmax", [1.0, 0.3, 0.2, 0.0])
    assert minimum.kind == "matched"
    assert (minimum.curvatures > 0.0).all()


def test_bad_starts():
    with pytest.raises(ValueError, match="start must be one of matched, mismatched, got other"):
        minimum_from(SpikedSLR(2.0, 3), "softmax", "other")
    with pytest.raises(ValueError, match=r"start must be finite keys of shape \(4,\)"):
        minimum_from(SpikedSLR(2.0, 3), "softmax", [1.0, 2.0])


@pytest.mark.parametrize("name", ["relu2", "relu-normalised"])
def test_the_mismatched_minimum_of_keys_without_a_scale_is_a_ray(name):
    task = SpikedSLR(5.0, 3)
    minimum = minimum_from(task, name, "mismatched", resolution=0.8)
    assert minimum.kind == "mismatched"
    assert minimum.status == "converged"
    assert minimum.curvatures.min() > -1e-6
    k, _ = minimum.order.vectors()
    for scale in (0.5, 3.0):  # keys and bias together; the values are the best ones for them
        landscape = make_landscape(task, make_activation(name))
        _, slope = landscape.at_best_values(scale * k, scale * minimum.bias)
        assert slope.risk == pytest.approx(minimum.risk, abs=1e-7)


def test_keys_without_a_scale_may_have_no_mismatched_minimum():
    assert minimum_from(SpikedSLR(5.0, 3), "spherical-2", "mismatched", resolution=0.8) is None
    cubic = minimum_from(SpikedSLR(5.0, 3), "cubic", "mismatched", curvatures=False)
    assert cubic.risk == pytest.approx(0.625, abs=1e-9)

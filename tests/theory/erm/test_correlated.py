"""Tokens with correlated coordinates: limits of the equations, and training on such tokens."""

import math

import numpy as np
import pytest

from slrlab import (
    HardNegativeSLR,
    MaxSLR,
    SpikedSLR,
    TokenLaw,
    correlated_theory,
    erm_theory,
    simulate_erm,
)
from slrlab._result import Estimate
from slrlab.experiments.comparison.student import difference, normal_score
from slrlab.theory.erm.correlated import _Spectrum
from slrlab.theory.erm.fields import BLOCKS

TASKS = [SpikedSLR(2.0, 3, 0.3), MaxSLR(3.0, 2, 0.3)]
RIDGES = {"alpha": 4.0, "ridge_k": 0.6, "ridge_v": 0.8}
NUMBERS = ("test_risk", "train_mse", "m_k", "q_k", "m_v", "q_v")
HALF = TokenLaw.of("gaussian+ar1(0.5)")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_without_correlations_it_is_the_usual_theory(task):
    usual = erm_theory(task, "softmax", **RIDGES, tolerance=3e-3)
    theory = correlated_theory(task, "softmax", **RIDGES, spectrum=[1.0] * 5, tolerance=3e-3)
    for name in (*NUMBERS, "replicon"):
        assert getattr(theory, name) == pytest.approx(getattr(usual, name), rel=1e-5), name
    assert theory.uncorrelated.objective == pytest.approx(usual.objective, rel=1e-5)
    assert theory.signal_factor == pytest.approx(1.0)


@pytest.mark.parametrize("shifted", [True, False], ids=["spiked", "selection"])
@pytest.mark.parametrize("kind", ["k", "v"])
def test_overlaps_and_conjugates_are_inverse_to_each_other(shifted, kind):
    """And they are those of vectors: solve for one explicitly, with many components."""
    rng, size, ridge = np.random.default_rng(0), 200_000, 0.7
    values = rng.choice([0.4, 1.0, 1.6], size)
    law = _Spectrum((0.4, 1.0, 1.6), shifted)
    hats = (1.3, 0.8, 2.1)
    m, q, V = law.overlaps(kind, ridge, hats)
    np.testing.assert_allclose(law.conjugates(kind, ridge, m, q, V), hats, rtol=1e-8)
    teacher, noise = rng.standard_normal((2, size))
    along = values**-0.5 / math.sqrt(law.signal_factor) if kind == "k" and shifted else values**0.5
    gain = values / (ridge + hats[2] * values)
    white = gain * (hats[0] * along * teacher + math.sqrt(hats[1]) * noise)
    assert m == pytest.approx((white * along * teacher).mean(), abs=0.02)
    assert q == pytest.approx((white**2).mean(), abs=0.02)
    assert pytest.approx(gain.mean(), abs=0.01) == V
    own = white / np.sqrt(values)  # the trained vector itself
    expected = [(own * teacher).mean(), (own**2).mean()]
    np.testing.assert_allclose(law.original(kind, ridge, m, q, V), expected, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("entries", ["gaussian", "rademacher"])
def test_training_on_correlated_tokens(task, entries):
    law = f"{entries}+ar1(0.5)"
    result = correlated_theory(task, "softmax", **RIDGES, spectrum=HALF.spectrum())
    seen = simulate_erm(
        task, "softmax", **RIDGES, dim=700, seeds=16, test_samples=10_000, token_law=law, seed=40
    )
    wrong = erm_theory(task, "softmax", **RIDGES, tolerance=1e-3)
    scores, others = {}, {}
    for name in NUMBERS:
        for theory, kept in ((result, scores), (wrong, others)):
            error = theory.errors.get(name, theory.test_risk_error)
            exact = Estimate(getattr(theory, name), error, BLOCKS - 1.0)
            kept[name] = abs(normal_score(difference(seen.estimate(name), exact)))
    assert max(scores.values()) < 3.5, scores
    assert max(others.values()) > 4.0, others  # the theory of uncorrelated tokens does not hold


@pytest.mark.parametrize("spectrum", [[], [1.0, -1.0, 3.0], [2.0, 2.0], [np.nan], [[1.0]]])
def test_a_bad_spectrum_is_named(spectrum):
    with pytest.raises(ValueError, match=r"^spectrum must be positive numbers of mean 1, got"):
        correlated_theory(TASKS[0], "softmax", **RIDGES, spectrum=spectrum)


def test_other_tasks_are_refused():
    with pytest.raises(TypeError, match=r"^task must be SpikedSLR or a SelectionTask for correl"):
        correlated_theory(HardNegativeSLR(2.0, 3), "softmax", **RIDGES, spectrum=[1.0])

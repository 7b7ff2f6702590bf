"""The last step of the protocol of the atlas: theory against simulated training, one by one."""

import numpy as np
import pytest

from slrlab import LengthScaled, SpikedSLR, erm_theory, make_activation, simulate_erm
from slrlab._result import Estimate, Status
from slrlab.experiments.comparison.student import difference, normal_score
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.families import TopK
from slrlab.model.traits import jumps
from slrlab.theory.erm.fields import BLOCKS
from slrlab.theory.erm.stability import MOST_GAP

TASK, ALPHA = SpikedSLR(5.0, 3), 4.0
SIZE = {"dim": 300, "seeds": 12, "test_samples": 4000}
# weights that grow without bound have a larger drift O(1/D)
LARGE = {"dim": 600, "seeds": 8, "test_samples": 4000}
GROWING = ("relu", "relu2", "taylor2", "consmax", "l1-linear")
QUANTITIES = ("m_k", "m_v", "q_k", "q_v", "train_mse", "test_risk")
RIDGES = {"laplace": (3.0, 1.0), "relu": (2.0, 2.0)}  # else 1 and 1
FAST = ("softmax", "ssmax", "l2-softmax")
SCALELESS = ("cosine", "spherical-2", "spherical-4")  # compared without a ridge of the keys
# weights that jump where the last positive score vanishes: the prox of many samples jumps with
# them, and there is no setting at which the theory holds. Normalised ReLU at signal 5, length 3:
# trace gap 0.36, replicon 1.4 and 13 % of samples with two minima at 8 samples per dimension;
# normalised squared ReLU: trace gap 0.06, replicon 1.5 at 32. At most 0.03 and 1 are stable.
JUMPING = ("relu-normalised", "relu2-normalised", "cosformer")
HOMOGENEOUS = (*SCALELESS, *JUMPING)
# where one token has all weight nothing moves: the prox of some samples has two minima, and the
# theory may report it as unstable
FLAT = ("sparsemax", "budget-2", "normmax-2")
JUMPS = [name for name, activation in ACTIVATIONS.items() if isinstance(activation, TopK)]
UNSTABLE = {
    "cubic": "the loss grows as a sixth power of the scores: the prox has several minima",
    "periodic": "its limit for small keys, spherical-2, has a replicon of 1.6",
    "softpick": "its weights turn sharply where scores change sign, and the prox jumps there",
}
# a ridge shrinks the keys to 0, and for small scores the weights are those of a map without a scale
VANISHING = {"periodic": "spherical-2"}
APART = (*HOMOGENEOUS, *JUMPS, *UNSTABLE)
COMPARED = [name for name in ACTIVATIONS if name not in APART]


def solved(task, name, ridges):
    """Return theory and simulation with the same ridges."""
    size = LARGE if name in GROWING else SIZE
    setting = {"alpha": ALPHA, "ridge_k": ridges[0], "ridge_v": ridges[1]}
    theory = erm_theory(task, name, **setting, tolerance=5e-3)
    return theory, simulate_erm(task, name, **setting, **size)


def estimates(theory):
    """Return each quantity of the theory with its error."""
    errors = theory.errors | {"test_risk": theory.test_risk_error}
    return {
        name: Estimate(getattr(theory, name), errors[name], BLOCKS - 1.0) for name in QUANTITIES
    }


def scores(theory, simulation):
    """Return the gap of each quantity as a normal score."""
    result = {}
    for name, exact in estimates(theory).items():
        seen = simulation.estimate(name)
        if name == "test_risk":
            seen = Estimate(simulation.test_risk, simulation.test_risk_error, seen.freedom)
        result[name] = normal_score(difference(seen, exact))
    return result


def test_every_activation_is_compared_or_has_its_reason():
    assert {*COMPARED, *APART} == set(ACTIVATIONS)
    assert {*RIDGES, *FAST, *GROWING, *FLAT} <= set(COMPARED)
    assert set(VANISHING) <= set(UNSTABLE)
    assert set(VANISHING.values()) <= set(SCALELESS)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in COMPARED]
)
def test_theory_is_simulated_training(name):
    theory, simulation = solved(TASK, name, RIDGES.get(name, (1.0, 1.0)))
    assert simulation.status is Status.SAMPLED
    assert theory.status is Status.SAMPLED or (name in FLAT and theory.status is Status.UNSTABLE)
    assert theory.bistable_fraction < 0.05
    assert theory.replicon < 1.0
    result = scores(theory, simulation)
    assert max(map(abs, result.values())) < 3.0, result


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSTABLE)
def test_the_theory_reports_where_it_does_not_hold(name):
    theory = erm_theory(TASK, name, alpha=ALPHA, ridge_k=1.0, ridge_v=1.0, tolerance=5e-3)
    # which of these it is depends on rounding where keys vanish; never the status of a trusted risk
    doubtful = (Status.UNSTABLE, Status.NOT_CONVERGED, Status.INACCURATE)
    assert theory.status in doubtful, UNSTABLE[name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "limit"), VANISHING.items())
def test_keys_that_vanish_are_compared_with_their_limit(name, limit):
    """Values and risks are those of the limit, which is stable at 32 samples per dimension."""
    setting = {"alpha": 32.0, "ridge_v": 1.0}
    theory = erm_theory(TASK, name, **setting, ridge_k=1.0, tolerance=5e-3)
    assert theory.status is Status.SAMPLED
    simulation = simulate_erm(
        TASK, name, **setting, ridge_k=1.0, dim=150, seeds=8, test_samples=4000
    )
    assert theory.q_k < 1e-2
    assert simulation.q_k < 1e-2
    kept = ("m_v", "q_v", "train_mse", "test_risk")
    result = scores(theory, simulation)
    assert max(abs(result[key]) for key in kept) < 3.0, result
    scaleless = estimates(erm_theory(TASK, limit, **setting, ridge_k=0.0, tolerance=5e-3))
    for key in kept:
        assert abs(normal_score(difference(estimates(theory)[key], scaleless[key]))) < 3.0


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_without_a_scale_a_ridge_on_the_keys_has_no_minimum(name):
    """Smaller keys and bias leave the weights as they are and cost less, without end."""
    activation = make_activation(name)
    bias = 0.4 if activation.bias is None else activation.bias
    chi = np.random.default_rng(0).standard_normal((20, 3))
    exact = activation.with_bias(bias).weights(chi)
    np.testing.assert_allclose(
        activation.with_bias(1e-3 * bias).weights(1e-3 * chi), exact, rtol=1e-9
    )
    with pytest.raises(ValueError, match=rf"^ridge_k must be 0 for {name}, "):
        erm_theory(TASK, name, alpha=ALPHA, ridge_k=1.0, ridge_v=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALELESS)
def test_theory_is_simulated_training_without_a_scale(name):
    """Keys of any length, and of either sign where weights are odd or even, are as good."""
    setting = {"alpha": 32.0, "ridge_k": 0.0, "ridge_v": 1.0}
    theory = erm_theory(TASK, name, **setting, tolerance=5e-3)
    assert theory.status is Status.SAMPLED
    simulation = simulate_erm(TASK, name, **setting, dim=150, seeds=8, test_samples=4000)
    result = scores(theory, simulation)
    assert max(abs(result[key]) for key in ("q_v", "train_mse", "test_risk")) < 3.0, result
    cosines = [one.m_k / one.q_k**0.5 for one in (theory, simulation)]
    assert abs(cosines[0]) == pytest.approx(abs(cosines[1]), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", JUMPING)
def test_the_theory_reports_weights_that_jump(name):
    assert jumps(make_activation(name))
    setting = {"alpha": 32.0, "ridge_k": 0.0, "ridge_v": 1.0}
    theory = erm_theory(TASK, name, **setting, tolerance=2e-2)
    assert theory.status is Status.UNSTABLE
    assert theory.trace_gap > MOST_GAP


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssmax", "relu-over-length", "stick-breaking"])
def test_theory_is_simulated_training_at_random_lengths(name):
    theory, simulation = solved(SpikedSLR(5.0, "1,2,4"), name, (1.0, 1.0))
    assert theory.status is Status.SAMPLED
    result = scores(theory, simulation)
    assert max(map(abs, result.values())) < 3.0, result


def test_at_one_length_only_the_ridges_change():
    """``f σ(sχ)`` with ridges ``r_k, r_v`` is ``σ`` with ``r_k/s², r_v/f²``: ``sk`` and ``fv``."""
    score, factor = 1.7, 0.6
    scaled = LengthScaled(
        "scaled", base=make_activation("softmax"), score=lambda n: score, factor=lambda n: factor
    )
    setting = {"alpha": ALPHA, "tolerance": 5e-3}
    theory = erm_theory(TASK, scaled, ridge_k=1.0, ridge_v=1.0, **setting)
    base = erm_theory(TASK, "softmax", ridge_k=score**-2, ridge_v=factor**-2, **setting)
    assert theory.status is base.status is Status.SAMPLED
    for name in ("test_risk", "train_mse", "replicon", "objective"):
        assert getattr(theory, name) == pytest.approx(getattr(base, name), rel=1e-4)
    for name, scale in (("k", score), ("v", factor)):
        for key, power in (("m", 1), ("q", 2), ("V", 2)):
            ours, theirs = (getattr(one, f"{key}_{name}") for one in (theory, base))
            assert scale**power * ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("name", JUMPS)
def test_weights_that_jump_are_refused_before_any_work(name):
    setting = {"alpha": ALPHA, "ridge_k": 1.0, "ridge_v": 1.0}
    for call in (erm_theory, lambda *a, **k: simulate_erm(*a, dim=10, **k)):
        with pytest.raises(ValueError, match=rf"^activation must be continuous .* got {name}"):
            call(TASK, name, **setting)

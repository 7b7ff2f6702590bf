"""Trained attention: reference numbers, limits, honest errors, bad input."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from slrlab import (
    ComputationError,
    Elementwise,
    ErmTheory,
    MaxSLR,
    OrderParameters,
    ScalarMap,
    SpikedSLR,
    Status,
    bayes_risk,
    erm_theory,
    large_alpha,
    make_activation,
    make_task,
    minimal_risk,
    optimal_ridge,
    ridge_map,
    risk_at,
)
from slrlab.theory.erm.measure import measure
from slrlab.theory.erm.problem import Problem
from slrlab.theory.erm.solve import Solver

SPIKED = SpikedSLR(signal=2.0, length=3)
STEEP = Elementwise("", phi=ScalarMap(*[lambda x: np.exp(np.exp(x))] * 3))
KEYS = ("m_k", "m_v", "q_k", "q_v", "V_k", "V_v", "test_risk", "train_mse")

# Entries of the reference whose own error is too small, as its authors confirm: they are off by up
# to 2e-3 (tests/data/README.md). The risk at all overlaps is compared with a quadrature instead.
DOUBTFUL = {(2, "m_k"), (3, "q_k")}


LONG = [pytest.param(index, marks=pytest.mark.slow) for index in (0, 1, 5, 6)]


@pytest.mark.parametrize("index", [2, 3, 4, *LONG])
def test_reference(erm_reference, index):
    assert len(erm_reference) == 7
    case = erm_reference[index]
    task = make_task(
        case["task"], signal=float(case["signal"]), length=case["length"], noise=case["noise"]
    )
    theory = erm_theory(
        task,
        case["activation"],
        alpha=case["alpha"],
        ridge_k=case["ridge_k"],
        ridge_v=case["ridge_v"],
        tolerance=6e-4,
    )
    assert theory.branch == "informed"
    for name in KEYS:
        error = case["standard_error"][name]
        own = theory.errors.get(name, theory.test_risk_error)
        allowed = max(1e-3, 3.0 * math.hypot(error, own))
        if (index, name) in DOUBTFUL:
            allowed = 2e-3 + 3.0 * own
        assert abs(getattr(theory, name) - case["value"][name]) <= allowed, name
    order = OrderParameters(
        theory.m_k, theory.m_v, theory.q_k - theory.m_k**2, theory.q_v - theory.m_v**2
    )
    exact = risk_at(task, case["activation"], order).risk
    assert abs(theory.test_risk - exact) <= 4.0 * theory.test_risk_error


def ridge_regression(alpha, ridge, noise):
    """One token: state evolution of plain ridge regression in closed form."""
    a, b = ridge, ridge + alpha - 1.0
    V = (-b + math.sqrt(b * b + 4.0 * a)) / (2.0 * a)
    m = 1.0 - ridge * V
    # q = m² + V²q̂, q̂ = α(1 + Δ² − 2m + q)/(1 + V)²
    gain = alpha * V**2 / (1.0 + V) ** 2
    q = (m**2 + gain * (1.0 + noise**2 - 2.0 * m)) / (1.0 - gain)
    return V, m, q, 1.0 + noise**2 - 2.0 * m + q


@pytest.mark.parametrize(("alpha", "ridge", "noise"), [(3.0, 0.1, 0.0), (0.7, 0.5, 0.4)])
def test_one_token_is_ridge_regression(alpha, ridge, noise):
    task = SpikedSLR(signal=2.0, length=1, noise=noise)
    theory = erm_theory(task, "softmax", alpha=alpha, ridge_k=0.3, ridge_v=ridge)
    V, m, q, risk = ridge_regression(alpha, ridge, noise)
    assert theory.V_v == pytest.approx(V, abs=1e-6)
    assert theory.m_v == pytest.approx(m, abs=1e-3)
    assert theory.q_v == pytest.approx(q, abs=2e-3)
    assert theory.test_risk == pytest.approx(risk, abs=1e-3)
    assert theory.replicon == pytest.approx(alpha * V**2 / (1.0 + V) ** 2, rel=1e-3)
    assert abs(theory.m_k) < 1e-12
    assert theory.trace_gap < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_many_samples_reach_the_population(activation):
    rate = large_alpha(SPIKED, activation)
    assert rate.population_risk == pytest.approx(minimal_risk(SPIKED, activation).risk)
    gaps = []
    for alpha in (100.0, 1000.0):
        theory = erm_theory(
            SPIKED, activation, alpha=alpha, ridge_k=0.1, ridge_v=0.1, tolerance=1e-3
        )
        excess = (theory.test_risk - rate.population_risk) * alpha
        gaps.append(abs(excess - rate.rate))
        noise = 4.0 * math.hypot(theory.test_risk_error * alpha, rate.rate_error)
        assert gaps[-1] < 12.0 / alpha * rate.rate + noise
    assert rate.risk(100.0) == pytest.approx(rate.population_risk + rate.rate / 100.0)


MAX = MaxSLR(signal=math.inf, length="2,3", noise=0.3)


@pytest.mark.parametrize(
    ("task", "activation"),
    [
        (SPIKED, "softmax"),
        pytest.param(SPIKED, "erf", marks=pytest.mark.slow),
        (SPIKED, "softplus"),
        (MAX, "softmax"),
        (MAX, "linear"),
    ],
)
def test_limits_without_information(task, activation):
    few = erm_theory(task, activation, alpha=1e-4, ridge_k=0.5, ridge_v=0.5, tolerance=1e-3)
    assert few.test_risk == pytest.approx(task.trivial_risk, abs=2e-3)
    held = erm_theory(task, activation, alpha=2.0, ridge_k=1e4, ridge_v=1e4, tolerance=1e-3)
    assert held.test_risk == pytest.approx(task.trivial_risk, abs=2e-3)
    assert held.q_v < 1e-3
    assert held.stable
    assert held.train_mse == pytest.approx(task.trivial_risk, abs=2e-2)


@pytest.mark.parametrize("activation", ["softmax", "linear", "softplus"])
def test_objective_two_ways(activation):
    """αE[M] − ½ΣV q̂ + ½Σ r q is the objective, as M counts the moves of the prox too."""
    solver = Solver(SPIKED, make_activation(activation), seed=1)
    problem = Problem(SPIKED, solver.activation, 4.0, ridge_k=0.4, ridge_v=0.4)
    solution = solver.solve(problem, solver.starts()["informed"], 9)
    overlaps = solution.overlaps
    means = solution.means
    (hats,) = means.pooled.conjugates(4.0, overlaps)
    moved = 0.5 * (overlaps.V_k * hats.q_k + overlaps.V_v * hats.q_v)
    penalty = 0.5 * (0.4 * overlaps.q_k + 0.4 * overlaps.q_v)
    other = 4.0 * means.mean("ENVELOPE") - moved + penalty
    assert problem.objective(means, overlaps) == pytest.approx(other, rel=1e-10)


def test_two_cycle_is_cured():
    """The undamped iteration alternates between two points here."""
    task = SpikedSLR(signal=3.0, length=2)
    theory = erm_theory(task, "linear", alpha=5.0, ridge_k=0.2, ridge_v=0.05, tolerance=2e-3)
    assert theory.status is Status.SAMPLED
    assert theory.residual < 1e-4


@pytest.mark.slow
def test_failure_is_a_status():
    """Without a bias and with a weak ridge erf has no stable replica-symmetric solution."""
    setting = {"alpha": 2.0, "ridge_k": 0.1, "ridge_v": 0.1, "tolerance": 1e-2}
    erf = make_activation("erf", bias=0.0)
    theory = erm_theory(SPIKED, erf, **setting)
    assert theory.status is Status.UNSTABLE
    assert theory.replicon > 1.0
    with pytest.raises(ComputationError, match="status"):
        erm_theory(SPIKED, erf, strict=True, **setting)


def test_weak_ridge_is_flagged():
    weak = erm_theory(SPIKED, "softmax", alpha=1.0, ridge_k=0.02, ridge_v=0.02, tolerance=1e-2)
    strong = erm_theory(SPIKED, "softmax", alpha=1.0, ridge_k=1.0, ridge_v=1.0, tolerance=1e-2)
    assert strong.stable
    assert strong.status is Status.SAMPLED
    assert weak.replicon > strong.replicon
    assert weak.bistable_fraction > 1e-3
    assert weak.trace_gap > 0.1 > 5.0 * strong.trace_gap
    assert weak.test_risk_low < weak.test_risk - 0.05  # what the trace misses
    assert "between" in str(weak)
    assert "between" not in str(strong)
    assert not weak.stable
    assert weak.status in (Status.UNSTABLE, Status.NOT_CONVERGED)


@pytest.mark.slow
def test_free_bias_is_learned():
    """The learned bias is stationary for the training objective: moving it costs."""
    setting = {"alpha": 8.0, "ridge_k": 0.5, "ridge_v": 2.0, "tolerance": 2e-3}
    learned = erm_theory(SPIKED, "erf", **setting)
    assert learned.status is Status.SAMPLED
    for shift in (-0.3, 0.3):
        fixed = make_activation("erf", bias=learned.bias + shift)
        assert erm_theory(SPIKED, fixed, **setting).objective > learned.objective
    same = erm_theory(SPIKED, make_activation("erf", bias=learned.bias), **setting)
    assert same.test_risk == pytest.approx(learned.test_risk, abs=1e-3)


@pytest.mark.parametrize(("activation", "ridge"), [("softmax", (0.4, 0.8)), ("linear", (0.5, 2.0))])
def test_error_bars_are_honest(activation, ridge):
    """z-scores of 20 independent runs against one 16 times larger have unit scatter."""
    chosen = make_activation(activation)
    problem = Problem(SPIKED, chosen, 8.0, *ridge)

    def run(seed, size):
        solver = Solver(SPIKED, chosen, seed)
        solution = solver.solve(problem, solver.starts()["informed"], size, global_prox=False)
        return measure(solution, "informed", (), 1.0)

    truth = run(1000, 12)
    runs = [run(seed, 8) for seed in range(20)]
    for name in ("test_risk", "m_v"):
        error = [r.test_risk_error if name == "test_risk" else r.errors[name] for r in runs]
        own = truth.test_risk_error if name == "test_risk" else truth.errors[name]
        gaps = np.array([getattr(r, name) - getattr(truth, name) for r in runs])
        z = gaps / np.hypot(error, own)
        assert 0.7 <= z.std(ddof=1) <= 1.4, (name, z.std(ddof=1))
        assert abs(z.mean()) < 1.0, (name, z.mean())


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_best_ridge_beats_its_neighbours(activation):
    best = optimal_ridge(SPIKED, activation, alpha=4.0, tolerance=1e-3)
    assert best.status is Status.SAMPLED
    for factor_k, factor_v in ((2.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.0, 0.5)):
        other = erm_theory(
            SPIKED,
            activation,
            alpha=4.0,
            ridge_k=factor_k * best.setting.ridge_k,
            ridge_v=factor_v * best.setting.ridge_v,
            tolerance=1e-3,
        )
        noise = 3.0 * math.hypot(other.test_risk_error, best.test_risk_error)
        assert other.test_risk > best.test_risk - noise


def test_best_ridge_at_the_boundary():
    """One noiseless token and α > 1: no ridge at all is best, and gives zero risk."""
    best = optimal_ridge(SpikedSLR(signal=1.0, length=1), "softmax", alpha=3.0)
    assert best.test_risk == pytest.approx(0.0, abs=1e-4)
    assert best.setting.ridge_v == pytest.approx(0.0, abs=1e-2)


def test_continuation_and_map():
    first = erm_theory(SPIKED, "softmax", alpha=4.0, ridge_k=0.5, ridge_v=0.8, tolerance=3e-3)
    again = erm_theory(
        SPIKED, "softmax", alpha=4.0, ridge_k=0.6, ridge_v=0.8, start=first, tolerance=3e-3
    )
    assert again.branch == "continued"
    grid = ridge_map(
        SPIKED, "softmax", alpha=4.0, ridge_k=[0.6], ridge_v=[0.8, 2.0], tolerance=3e-3
    )
    table = grid.to_frame()
    assert len(table) == 2
    row = table[np.isclose(table["ridge_v"], 0.8)].iloc[0]
    assert row["test_risk"] == pytest.approx(again.test_risk, abs=2e-2)


@pytest.mark.slow
def test_every_task_and_activation_has_a_number():
    tasks = [SPIKED, MaxSLR(signal=3.0, length="1,2,3", noise=0.2)]
    names = ["erf", "softplus", "entmax15"]
    names += ["elementwise: 1 + tanh(x)", "normalised: 1 + x + x**2/2"]
    for task in tasks:
        for name in names:
            result = erm_theory(task, name, alpha=6.0, ridge_k=1.0, ridge_v=1.0, tolerance=2e-2)
            assert result.status is Status.SAMPLED, (task.name, name)
            assert result.test_risk_error < 2e-2
            slack = 4.0 * result.test_risk_error + 1e-6
            assert bayes_risk(task).risk - slack < result.test_risk, (task.name, name)
            assert result.test_risk < task.trivial_risk, (task.name, name)
            # zero weights are a choice of training, and what it has seen it fits better
            assert result.objective < 0.5 * 6.0 * task.trivial_risk, (task.name, name)
            assert result.train_mse < result.test_risk + slack, (task.name, name)


def test_result_speaks():
    theory = erm_theory(SPIKED, "linear", alpha=4.0, ridge_k=0.5, ridge_v=0.8, tolerance=5e-3)
    assert "±" in str(theory)
    assert set(theory.to_dict()) >= {"replicon", "stable", "branch", "status", "branches", "errors"}
    assert json.dumps(theory.to_dict(), allow_nan=False)
    assert isinstance(replace(theory, steps=1), ErmTheory)
    assert "<table>" in theory._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a finite number > 0, got 0.0"),
        ({"alpha": -1.0}, "alpha must be a finite number > 0, got -1.0"),
        ({"alpha": math.nan}, "alpha must be a finite number > 0, got nan"),
        ({"ridge_k": -0.1}, "ridge_k must be a finite number >= 0, got -0.1"),
        ({"ridge_v": math.inf}, "ridge_v must be a finite number >= 0, got inf"),
        ({"tolerance": 0.0}, "tolerance must be a finite number > 0, got 0.0"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"activation": "soft"}, "activation must be"),
        ({"activation": "elementwise: exp(exp(x))"}, "not a finite number at x = "),
        ({"activation": STEEP}, "must be finite with two derivatives"),
        ({"task": SpikedSLR(signal=math.inf, length=3)}, "signal must be finite"),
    ],
)
def test_bad_input(change, message):
    setting = {"task": SPIKED, "activation": "softmax", "alpha": 2.0} | {
        "ridge_k": 0.1,
        "ridge_v": 0.1,
    }
    setting |= change
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        erm_theory(setting.pop("task"), setting.pop("activation"), **setting)


def test_wrong_task_type():
    with pytest.raises(TypeError, match="task must be a Task"):
        erm_theory("spiked", "softmax", alpha=1.0, ridge_k=0.1, ridge_v=0.1)


# measured by independent code: softmax, spiked, signal 2, length 3, alpha 1, ridge_v 0.5
BOTH_FORMS = [(2.0, 0.8908, 0.8907), (0.5, 0.8569, 0.8601), (0.12, 0.828, 0.893)]


@pytest.mark.parametrize(
    ("ridge_k", "trace", "stein"),
    [*BOTH_FORMS[:2], pytest.param(*BOTH_FORMS[2], marks=pytest.mark.slow)],
)
def test_both_forms_of_the_stiffness(ridge_k, trace, stein):
    setting = {"alpha": 1.0, "ridge_k": ridge_k, "ridge_v": 0.5, "tolerance": 2e-3}
    theory = erm_theory(SPIKED, "softmax", **setting)
    other = erm_theory(SPIKED, "softmax", stiffness="trace", **setting)
    assert (theory.stiffness, other.stiffness) == ("stein", "trace")
    for result, expected in ((theory, stein), (other, trace)):
        # three errors of ours, and the 0.0015 by which seeds of the other code differ
        assert abs(result.test_risk - expected) < 3.0 * result.test_risk_error + 1.5e-3
    for result in (theory, other):  # each result has the risk of the other
        noise = 4.0 * math.hypot(theory.test_risk_error, other.test_risk_error)
        assert result.test_risk_low == pytest.approx(other.test_risk, abs=noise)
        assert result.test_risk_high == pytest.approx(theory.test_risk, abs=noise)
        assert result.test_risk_low <= result.test_risk <= result.test_risk_high


def test_no_jumps_no_interval():
    theory = erm_theory(SPIKED, "softmax", alpha=8.0, ridge_k=1.0, ridge_v=1.0, tolerance=5e-3)
    assert theory.bistable_fraction == theory.trace_gap == 0.0
    assert theory.test_risk_low == theory.test_risk == theory.test_risk_high


@pytest.mark.slow
def test_best_ridge_is_inside_where_the_prox_jumps():
    """With the trace the risk falls on towards weak ridges; the jumps hold it back."""
    best = optimal_ridge(SPIKED, "softmax", alpha=1.0, tolerance=2e-3)
    assert best.stable
    assert best.setting.ridge_k > 0.1
    weaker = {"alpha": 1.0, "ridge_k": best.setting.ridge_k / 4.0, "ridge_v": best.setting.ridge_v}
    beyond = erm_theory(SPIKED, "softmax", tolerance=5e-3, **weaker)
    assert not beyond.stable
    assert beyond.test_risk > best.test_risk + 3.0 * beyond.test_risk_error
    blind = erm_theory(SPIKED, "softmax", tolerance=5e-3, stiffness="trace", **weaker)
    assert blind.test_risk < best.test_risk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "activation", "alpha"),
    [
        (SpikedSLR(signal=10.0, length=3), "softmax", 2.0),
        (SPIKED, "softmax", 2.0),
        (SPIKED, "linear", 2.0),
        (MaxSLR(signal=2.0, length=3), "softmax", 4.0),
    ],
)
def test_seeds_agree_on_the_best_ridge(task, activation, alpha):
    optima = [
        optimal_ridge(task, activation, alpha=alpha, tolerance=2e-3, seed=seed) for seed in (0, 1)
    ]
    gap = optima[0].test_risk - optima[1].test_risk
    # an error from eight blocks is Student's t with 7 degrees of freedom: 1 in 1000 at 5.4
    assert abs(gap) < 5.4 * math.hypot(*(best.test_risk_error for best in optima))
    crossed = erm_theory(
        task,
        activation,
        alpha=alpha,
        ridge_k=optima[0].setting.ridge_k,
        ridge_v=optima[0].setting.ridge_v,
        tolerance=2e-3,
        seed=1,
    )
    noise = 5.4 * math.hypot(crossed.test_risk_error, optima[1].test_risk_error)
    assert crossed.test_risk > optima[1].test_risk - noise


@pytest.mark.slow
def test_errors_at_the_best_ridge_count_where_the_search_ends():
    """The risk is flat around its optimum: overlaps and ridges vary more than at given ridges."""
    task = SpikedSLR(signal=5.0, length=3)
    optima = [optimal_ridge(task, "linear", alpha=4.0, seed=seed) for seed in range(4)]
    for name in ("q_v", "m_v", "V_k", "ridge_k", "ridge_v"):
        values = [getattr(best.setting if "ridge" in name else best, name) for best in optima]
        stated = np.sqrt(np.mean([best.errors[name] ** 2 for best in optima]))
        # the variance of four seeds over its mean exceeds 5.4 once in 1000 times
        assert np.std(values, ddof=1) < math.sqrt(5.4) * stated


@pytest.mark.slow
def test_training_errors_are_honest():
    runs = [
        erm_theory(
            SPIKED, "softmax", alpha=4.0, ridge_k=0.5, ridge_v=0.8, tolerance=1e-2, seed=seed
        )
        for seed in range(12)
    ]
    for name in ("train_mse", "objective"):
        values = np.array([getattr(run, name) for run in runs])
        stated = np.sqrt(np.mean([run.errors[name] ** 2 for run in runs]))
        # the scatter of 12 runs has a relative error of 0.21
        assert 0.4 <= values.std(ddof=1) / stated <= 1.7, name

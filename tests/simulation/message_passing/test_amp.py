import math
from itertools import islice

import numpy as np
import pytest

from slrlab import (
    ComputationError,
    MaxSLR,
    SpikedSLR,
    amp_state_evolution,
    bayes_optimal,
    compare_amp,
    draw_dataset,
    run_amp,
)
from slrlab.numerics.race import Race
from slrlab.simulation.message_passing.iteration import PRECISIONS, AmpState, iterate
from slrlab.simulation.message_passing.output_channel import location_model

INF = float("inf")
TASKS = [
    SpikedSLR(2.0, 3, 0.3),
    SpikedSLR(0.0, 2, 0.3),
    MaxSLR(2.0, 3, 0.3),
    MaxSLR(INF, 4, 0.1),
    MaxSLR(0.0, 3, 0.3),
    MaxSLR(1.0, 1, 0.3),
]


# --- the output functions -----------------------------------------------------------------------


def _fields(task, size=6, seed=0):
    rng = np.random.default_rng(seed)
    length = task.length.longest
    keys, values = 0.7 * rng.standard_normal((2, size, length))
    return keys, values, rng.standard_normal(size)


def _log_z(task, keys, values, labels, gap, variance):
    """``log Z`` of each sequence, up to a constant, written out."""
    if isinstance(task, SpikedSLR):
        weights = np.exp(math.sqrt(task.signal) * keys)
    elif task.signal == 0.0:
        weights = np.ones_like(keys)
    else:
        weights = Race.build(task.signal, gap).posterior(keys)
    normal = np.exp(-((labels[:, None] - values) ** 2) / (2.0 * variance))
    return np.log((weights * normal).sum(axis=1))


def _difference(function, table, index, step=1e-3):
    moved = [table.copy(), table.copy()]
    moved[0][:, index] += step
    moved[1][:, index] -= step
    return (function(moved[0]) - function(moved[1])) / (2.0 * step)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_g_is_the_gradient_of_log_z(task):
    gap, variance = 0.5, 0.4
    keys, values, labels = _fields(task)
    response = location_model(task, gap).respond(keys, values, labels, variance)
    for index in range(keys.shape[1]):
        by_key = _difference(lambda k: _log_z(task, k, values, labels, gap, variance), keys, index)
        by_value = _difference(
            lambda v: _log_z(task, keys, v, labels, gap, variance), values, index
        )
        np.testing.assert_allclose(response.key[:, index], by_key, atol=2e-3)
        np.testing.assert_allclose(response.value[:, index], by_value, atol=1e-5)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_the_divergence_is_that_of_g(task):
    model = location_model(task, 0.5, divergence=True)
    keys, values, labels = _fields(task)
    response = model.respond(keys, values, labels, 0.4)
    expected = np.zeros((2, 2))
    for index in range(keys.shape[1]):
        for row, name in enumerate(("key", "value")):

            def read(k, v, name=name, index=index):
                return getattr(model.respond(k, v, labels, 0.4), name)[:, index]

            step = 2e-2  # above the kinks of the interpolated race
            expected[row, 0] -= _difference(lambda k: read(k, values), keys, index, step).sum()
            expected[row, 1] -= _difference(lambda v: read(keys, v), values, index, step).sum()
    np.testing.assert_allclose(response.bend, expected, atol=5e-3)


def test_the_race_in_blocks_is_the_race(monkeypatch):
    task = MaxSLR(3.0, 3, 0.2)
    model, (keys, values, labels) = location_model(task, 0.4), _fields(task, size=50)
    whole, p = model.respond(keys, values, labels, 0.3), model.posterior(keys)
    monkeypatch.setattr("slrlab.simulation.message_passing.output_channel._CHUNK", 700)
    parts = model.respond(keys, values, labels, 0.3)
    np.testing.assert_allclose(parts.key, whole.key)
    np.testing.assert_allclose(parts.bend, whole.bend)
    assert parts.misfit == pytest.approx(whole.misfit)
    np.testing.assert_allclose(model.posterior(keys), p)


# --- against state evolution --------------------------------------------------------------------


def _largest_miss(comparison, allowance):
    """Largest gap to theory over all iterations, in units of three errors plus an allowance."""
    worst = 0.0
    for name in ("q_k", "q_v", "risk"):
        value, error, theory = (
            np.array(getattr(comparison, name + end)) for end in ("", "_error", "_se")
        )
        worst = max(worst, float((np.abs(value - theory) / (3.0 * error + allowance)).max()))
    return worst


@pytest.mark.parametrize(
    ("task", "alpha"),
    [
        (SpikedSLR(2.0, 3, 0.3), 2.0),
        pytest.param(SpikedSLR(5.0, 3), 1.5, marks=pytest.mark.slow),
        pytest.param(SpikedSLR(2.0, "1,2,3", 0.3), 2.0, marks=pytest.mark.slow),
        (MaxSLR(2.0, 3, 0.3), 2.0),
        pytest.param(MaxSLR(INF, "1,2,3"), 3.0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_amp_follows_state_evolution(task, alpha):
    """Errors are of the mean over seeds; the allowance is 10/D for what does not average out."""
    dim = 800
    comparison = compare_amp(task, alpha=alpha, dim=dim, seeds=4, steps=12, test_samples=2000)
    assert comparison.status == "sampled"
    assert _largest_miss(comparison, 10.0 / dim) < 1.0
    assert max(comparison.gap_q_k, comparison.gap_q_v) < 0.04


@pytest.mark.slow
def test_amp_at_dimension_4000_stays_within_two_percent():
    comparison = compare_amp(SpikedSLR(2.0, 3, 0.3), alpha=2.0, dim=4000, seeds=3, test_samples=0)
    assert len(comparison.iteration) == 20
    assert max(comparison.gap_q_k, comparison.gap_q_v) < 0.02


def test_gaps_to_state_evolution_shrink_with_the_dimension():
    def gap(dim, seeds):
        runs = run_amp(
            SpikedSLR(2.0, 3, 0.3), alpha=2.0, dim=dim, seeds=seeds, steps=10, test_samples=0
        ).runs
        theory = amp_state_evolution(SpikedSLR(2.0, 3, 0.3), alpha=2.0, steps=10)
        gaps = [np.subtract(run.q_v, theory.q_v) for run in runs]
        return math.sqrt(np.mean(np.square(gaps)))

    # 16 times the dimension: a fourth of the fluctuations, up to those of the estimate
    assert gap(1024, 2) < 0.5 * gap(64, 12)


def test_without_noise_the_values_are_found_exactly():
    for task, alpha in ((SpikedSLR(5.0, 3), 2.0), (MaxSLR(INF, 2), 3.0)):
        result = run_amp(task, alpha=alpha, dim=400, seeds=2, steps=35, test_samples=0)
        assert result.status == "sampled"
        for run in result.runs:
            assert abs(run.q_v[-1] - 1.0) < 1e-5
            assert abs(run.norm_v[-1] - 1.0) < 1e-5
        if task.name == "spiked":
            assert result.q_k[-1] == pytest.approx(10.0 / 11.0, abs=0.03)


def test_below_the_threshold_amp_stays_on_the_poor_branch():
    task = SpikedSLR(2.0, 3)
    result = run_amp(task, alpha=0.9, dim=600, seeds=3, steps=25, test_samples=0)
    poor = bayes_optimal(task, alpha=0.9)
    assert result.q_v[-1] == pytest.approx(poor.q_v, abs=0.05)


@pytest.mark.parametrize("task", [SpikedSLR(1.0, 1, 0.5), MaxSLR(1.0, 1, 0.5)], ids=str)
def test_one_token_ends_at_ridge_regression(task):
    """Exactly, on the same data; with an intercept where the tokens have a mean."""
    dim = 200
    data = draw_dataset(task, dim=dim, samples=500, dtype="float64")
    *_, last = islice(iterate(data, task), 150)
    x, y = data.tokens / math.sqrt(dim), data.labels
    if task.name == "spiked":
        x, y = x - x.mean(axis=0), y - y.mean()
    ridge = np.linalg.solve(x.T @ x + task.noise**2 * np.eye(dim), x.T @ y)
    np.testing.assert_allclose(last.weights[1], ridge, atol=1e-8)


def test_one_token_has_the_closed_form_of_linear_regression():
    task = SpikedSLR(1.0, 1, 0.5)
    exact = bayes_optimal(task, alpha=2.0)
    result = run_amp(task, alpha=2.0, dim=1000, seeds=4, steps=20, test_samples=5000)
    assert result.q_v[-1] == pytest.approx(exact.q_v, abs=0.02)
    assert result.risk[-1] == pytest.approx(exact.risk_amp, abs=0.02)
    # the keys are a plain average of the tokens: known after one iteration
    assert result.q_k[0] == pytest.approx(exact.q_k, abs=0.03)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_all_forms_of_the_precision_have_one_limit(precision):
    task = MaxSLR(2.0, 3, 0.5)
    result = run_amp(
        task, alpha=3.0, dim=800, seeds=3, steps=8, test_samples=0, precision=precision
    )
    theory = amp_state_evolution(task, alpha=3.0, steps=8)
    assert np.abs(np.subtract(result.q_v, theory.q_v)).max() < 0.05
    assert np.abs(1.0 - np.array(result.variance_v) - theory.q_v).max() < 0.05


# --- results and refusals -----------------------------------------------------------------------


def test_the_result():
    calls = []
    result = run_amp(
        SpikedSLR(2.0, "1,2"),
        alpha=1.5,
        dim=60,
        seeds=2,
        steps=3,
        test_samples=0,
        report=lambda *call: calls.append(call),
    )
    assert result.iteration == (1, 2, 3)
    assert calls[-1][:2] == (6, 6)
    assert all(math.isnan(risk) for risk in result.risk)
    table = result.to_dict()
    assert table["risk"] == ["nan"] * 3
    assert table["runs"][1]["seed"] == 1
    assert "after 3 iterations" in str(result)
    again = run_amp(SpikedSLR(2.0, "1,2"), alpha=1.5, dim=60, seeds=2, steps=3, test_samples=0)
    assert again.q_k == pytest.approx(result.q_k, rel=1e-9)
    damped = run_amp(SpikedSLR(2.0, 2), alpha=1.5, dim=60, seeds=1, steps=2, damping=0.5)
    assert len(damped.risk) == 2


@pytest.mark.parametrize("last", [0, 2])
def test_divergence_is_a_status(monkeypatch, last):
    """The numbers so far are kept; there may be none."""

    def broken(data, task, **options):
        for step, state in enumerate(iterate(data, task, **options)):
            if step == last:
                yield AmpState(np.full_like(state.weights, math.nan), state.variances, state.push)
                return
            yield state

    monkeypatch.setattr("slrlab.simulation.message_passing.amp.iterate", broken)
    options = {"alpha": 2.0, "dim": 50, "seeds": 2, "steps": 5, "test_samples": 50}
    comparison = compare_amp(SpikedSLR(2.0, 3), **options)
    assert comparison.status == "diverged"
    assert len(comparison.q_k) == len(comparison.q_k_se) == last
    assert math.isnan(comparison.gap_q_k) == (last == 0)
    assert len(comparison.to_frame()) == last
    with pytest.raises(ComputationError, match="diverged"):
        run_amp(SpikedSLR(2.0, 3), **options, strict=True)


def test_an_unsound_state_ends_the_iteration(monkeypatch):
    data = draw_dataset(SpikedSLR(2.0, 2), dim=20, samples=40)
    monkeypatch.setattr("slrlab.simulation.message_passing.iteration._RUNAWAY", 1e-9)
    (only,) = iterate(data, SpikedSLR(2.0, 2))
    assert not only.sound


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a finite number > 0, got 0.0"),
        ({"dim": 1}, "dim must be a whole number >= 2, got 1"),
        ({"seeds": 0}, "seeds must be a whole number >= 1, got 0"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"test_samples": -1}, "test_samples must be a whole number >= 0, got -1"),
        ({"damping": 1.0}, r"damping must be a number in \[0, 1\), got 1.0"),
        ({"damping": -0.1}, r"damping must be a number in \[0, 1\), got -0.1"),
        ({"precision": "exact"}, "precision must be one of ratio, norm, divergence, got exact"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, got float16"),
        ({"teacher": "mine"}, "teacher must be one of normalised, gaussian, got mine"),
        ({"dim": 10**7}, "dim must be at most"),
        ({"task": SpikedSLR(INF, 2)}, "signal must be finite"),
        ({"task": "spiked"}, "task must be a TiltedTask or a SelectionTask, got 'spiked'"),
    ],
)
def test_bad_input(change, message):
    options = {"task": SpikedSLR(2.0, 2), "alpha": 2.0, "dim": 20, "seeds": 1} | change
    with pytest.raises((ValueError, TypeError), match=message):
        run_amp(options.pop("task"), **options)


def test_one_sequence_is_no_crash():
    result = run_amp(SpikedSLR(2.0, 3), alpha=0.5, dim=2, seeds=2, test_samples=0)
    assert result.samples == 1
    assert result.status == "diverged"
    lengths = [len(run.q_k) for run in result.runs]
    assert len(result.q_k) == min(lengths) < 20  # what all runs have, up to the first that ends
    for run in result.runs:
        assert np.isfinite([run.q_k, run.q_v, run.norm_k, run.norm_v]).all()

"""Simulated training: seeds, errors, statuses, and refusals before any work."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from slrlab import (
    ComputationError,
    Estimate,
    FullOrderParameters,
    Normalised,
    SpikedSLR,
    Status,
    make_activation,
    simulate_erm,
)
from slrlab.simulation.training import erm
from slrlab.simulation.training.erm import fresh_risk, start_weights, trainable
from slrlab.simulation.training.objective import Weights

TASK = SpikedSLR(3.0, 2)
SMALL = {"alpha": 4.0, "dim": 40, "ridge_k": 0.5, "ridge_v": 0.5, "test_samples": 2000}


def run(name="softmax", task=TASK, **changes):
    return simulate_erm(task, name, **(SMALL | changes))


def without_clock(result):
    kept = {name: value for name, value in result.to_dict().items() if name != "seconds"}
    kept["runs"] = [{k: v for k, v in one.items() if k != "seconds"} for one in kept["runs"]]
    return json.dumps(kept)


def test_the_same_seeds_give_the_same_result():
    assert without_clock(run(seeds=2)) == without_clock(run(seeds=2))
    both, later = run(seeds=2), run(seeds=1, seed=1)
    assert both.runs[1].test_risk == later.runs[0].test_risk
    assert both.runs[0].test_risk != both.runs[1].test_risk
    assert [one.seed for one in both.runs] == [0, 1]


def test_means_and_errors_over_seeds():
    result = run(seeds=5)
    risks = [one.test_risk for one in result.runs]
    assert result.status is Status.SAMPLED
    assert result.test_risk == pytest.approx(np.mean(risks))
    assert result.test_risk_error == pytest.approx(np.std(risks, ddof=1) / math.sqrt(5))
    assert result.risk == Estimate(result.test_risk, result.test_risk_error)
    overlaps = [one.overlaps for one in result.runs]
    assert result.m_v == pytest.approx(np.mean([one.m_vv for one in overlaps]))
    assert result.q_kv == pytest.approx(np.mean([one.q_kv for one in overlaps]))
    assert set(result.errors) == {
        *("test_risk", "train_mse", "objective", "bias"),
        *("m_k", "m_v", "q_k", "q_v", "m_kv", "m_vk", "q_kv"),
    }
    assert result.estimate("m_v").error == result.errors["m_v"] > 0.0
    assert (result.samples, result.setting.alpha, result.seeds) == (160, 4.0, 5)
    assert "test risk" in str(result)
    assert len(result.to_frame()) == 1


def test_one_seed_has_the_error_of_its_test_sample():
    few, many = (run(seeds=1, test_samples=n) for n in (1000, 16_000))
    assert few.errors == {}
    assert math.isnan(few.estimate("m_v").error)
    assert few.train_mse == many.train_mse
    assert 3.0 < few.test_risk_error / many.test_risk_error < 5.5
    assert abs(few.risk.z_score(many.risk)) < 4
    none = run(seeds=1, test_samples=0)
    assert math.isnan(none.test_risk)
    assert none.train_mse == many.train_mse


def test_seeds_are_independent_and_their_spread_is_the_error():
    """Means of disjoint groups of seeds scatter as their own errors say."""
    groups = [run(seeds=6, seed=6 * g, test_samples=0).estimate("m_v") for g in range(8)]
    mean = np.mean([g.value for g in groups])
    scatter = math.sqrt(np.mean([g.z_score(mean) ** 2 for g in groups]))
    assert 0.4 < scatter < 2.2


def test_errors_shrink_with_seeds_and_risk_with_samples():
    few, many = run(seeds=4), run(seeds=24, test_samples=500)
    assert many.errors["m_v"] < few.errors["m_v"]
    more = run(seeds=4, alpha=16.0)
    assert more.test_risk < few.test_risk
    assert few.train_mse < few.test_risk < TASK.trivial_risk


def test_the_risk_of_known_vectors():
    """Zero is trivial; the posterior's keys with the teacher's values are the best there are."""
    teacher = erm.Teacher.draw(40, seed=3)
    softmax = make_activation("softmax")
    nothing = Weights(np.zeros(40), np.zeros(40))
    task = SpikedSLR(3.0, 2, noise=0.5)
    trivial = fresh_risk(task, softmax, nothing, teacher, samples=20_000)
    assert abs(trivial.z_score(task.trivial_risk)) < 4
    best = Weights(math.sqrt(3.0) * teacher.keys, teacher.values)
    one, two = (fresh_risk(TASK, softmax, best, teacher, samples=20_000, seed=s) for s in (0, 1))
    assert abs(one.z_score(two)) < 4
    assert one.value < 0.4


@pytest.mark.parametrize("start", ["informed", "random"])
def test_starts(start):
    teacher = erm.Teacher.draw(40)
    begin = start_weights(start, teacher, make_activation("erf"), 0)
    exact = FullOrderParameters(1, 0, 0, 1, 1, 0, 1)
    overlaps = begin.overlaps(teacher)
    if start == "informed":
        assert vars(overlaps) == pytest.approx(vars(exact), abs=1e-10)
    else:
        assert 0.0 < overlaps.q_kk < 0.05
    assert run(start=start, seeds=2).start == start


def test_softmax_has_no_bias_to_learn_but_a_sink_has():
    assert trainable(make_activation("softmax", bias="optimal")).bias == 0.0
    sink = Normalised("sink", bias=None, sink=1.0, exponential="everywhere")
    assert trainable(sink).bias is None
    learned = run("erf", seeds=2)
    assert learned.bias != 0.0
    assert learned.errors["bias"] > 0.0


def test_statuses(monkeypatch):
    short = run(max_steps=2, seeds=2)
    assert short.status is Status.NOT_CONVERGED
    with pytest.raises(ComputationError, match="not converged"):
        run(max_steps=2, seeds=2, strict=True)
    assert run(seeds=2, strict=True).status is Status.SAMPLED
    ends = iter([Status.NOT_CONVERGED, Status.DIVERGED, Status.CONVERGED])
    train = erm.train
    monkeypatch.setattr(erm, "train", lambda *a, **o: replace(train(*a, **o), status=next(ends)))
    assert run(seeds=3).status is Status.DIVERGED  # the worst of them


def test_progress_is_reported():
    calls = []
    run(seeds=2, report=lambda *state: calls.append(state))
    assert {(done, total) for done, total, _ in calls} == {(0, 2), (1, 2)}
    assert calls[0][2] == "training 1 of 2: drawing data"
    assert calls[1][2].startswith("training 1 of 2: step 1, loss ")


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be a finite number > 0, got 0.0"),
        ({"dim": 1}, ValueError, "dim must be a whole number >= 2, got 1"),
        ({"dim": 10**8}, ValueError, "dim must be at most "),
        ({"ridge_k": -1.0}, ValueError, "ridge_k must be a finite number >= 0, got -1.0"),
        ({"ridge_v": math.nan}, ValueError, "ridge_v must be a finite number >= 0, got nan"),
        ({"seeds": 0}, ValueError, "seeds must be a whole number >= 1, got 0"),
        ({"seed": -1}, ValueError, "seed must be a whole number >= 0, got -1"),
        ({"start": "warm"}, ValueError, "start must be one of informed, random, got warm"),
        ({"test_samples": -1}, ValueError, "test_samples must be a whole number >= 0, got -1"),
        ({"teacher": "exact"}, ValueError, "teacher must be one of normalised, gaussian, got"),
        ({"dtype": "int8"}, ValueError, "dtype must be one of float32, float64, got int8"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be a finite number > 0, got 0.0"),
        ({"max_steps": 0}, ValueError, "max_steps must be a whole number >= 1, got 0"),
        ({"task": SpikedSLR(math.inf, 2)}, ValueError, "signal must be finite to draw tokens"),
        ({"task": "spiked"}, TypeError, "task must be a Task, got 'spiked'"),
        ({"name": "soft"}, ValueError, "activation must be a name or an expression"),
    ],
)
def test_bad_numbers_are_named_before_any_work(monkeypatch, changes, kind, message):
    monkeypatch.setattr(erm, "train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(kind, match=f"^{message}"):
        run(**changes)

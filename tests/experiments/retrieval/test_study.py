import math
import sqlite3

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from slrlab import SpikedSLR, bayes_risk
from slrlab.experiments.retrieval import heads
from slrlab.experiments.retrieval import runs as retrieval_runs
from slrlab.experiments.retrieval import study as retrieval
from slrlab.experiments.retrieval.heads import (
    diagnose_head,
    head_activation,
    head_task,
)
from slrlab.experiments.retrieval.prediction import (
    head_correlations,
    predicted_excess,
    prediction_table,
)
from slrlab.experiments.retrieval.runs import PILOT_SEED, Profile, Run, run_all, study, task_of
from slrlab.experiments.retrieval.study import (
    ITEMS,
    NEEDLE_LENGTHS,
    data_of_tests,
    failed,
    rank_correlation,
    retrieval_study,
)
from slrlab.experiments.running.parallel import remember
from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import MaxTask
from slrlab.retrieval.training import head_scores, head_weights
from slrlab.theory.population.closed_forms import linear_risk

TASKS = ("recall", "markov", "max")
RUN = Run("recall", "softmax", 16, 0, 1000, 1e-2)


def test_a_run_is_known_by_its_settings():
    assert RUN.key == Run("recall", "softmax", 16, 0, 1000, 1e-2).key
    others = [
        Run("max", "softmax", 16, 0, 1000, 1e-2),
        Run("recall", "tnl", 16, 0, 1000, 1e-2),
        Run("recall", "softmax", 8, 0, 1000, 1e-2),
        Run("recall", "softmax", 16, 1, 1000, 1e-2),
        Run("recall", "softmax", 16, 0, 500, 1e-2),
        Run("recall", "softmax", 16, 0, 1000, 3e-2),
    ]
    assert len({RUN.key, *(run.key for run in others)}) == 7


def test_models_are_tested_beyond_what_they_were_trained_on():
    sizes = {
        name: [(test, size) for test, size, _ in data_of_tests(name)] for name in ("recall", "max")
    }
    assert sizes["recall"][:3] == [("recall", 4), ("recall", 8), ("recall", 16)]
    assert sizes["recall"][3:] == [("needle", length) for length in NEEDLE_LENGTHS]
    assert sizes["max"] == [("max", items) for items in ITEMS]
    assert max(ITEMS) == 4096
    assert all(task.length >= size for _, size, task in data_of_tests("max"))
    assert head_task("max", 4).length == 65
    assert head_task("recall", 4).length == 256


@pytest.mark.parametrize(
    ("task", "size", "accuracy", "status", "expected"),
    [
        ("recall", 16, 0.12, "sampled", True),
        ("recall", 16, 0.13, "sampled", False),
        ("max", 16, 0.19, "sampled", True),
        ("max", 16, 0.21, "sampled", False),
        ("max", 4096, 0.1, "sampled", False),  # it was trained on 16
        ("markov", 64, 0.01, "sampled", False),
        ("recall", 16, math.nan, "sampled", True),
        ("markov", 64, 1.0, "diverged", True),
    ],
)
def test_a_seed_that_only_guesses_has_failed(task, size, accuracy, status, expected):
    run = Run(task, "softmax", 16, 0, 1000, 1e-2)
    tests = [{"test": task, "size": size, "accuracy": accuracy}]
    assert failed(run, status, tests) is expected


def test_the_rank_correlation_is_that_of_spearman_and_its_interval_covers():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        x = rng.standard_normal(40)
        y = x + rng.standard_normal(40)
        value, low, high = rank_correlation(x.tolist(), y.tolist(), resamples=400)
        assert value == pytest.approx(stats.spearmanr(x, y).statistic)
        covered += low < 6.0 / math.pi * math.asin(math.sqrt(0.5) / 2.0) < high
    # 95 % of the intervals of normal pairs of correlation √½; 48 of 60 would be a chance of 1e-6
    assert covered > 48


def test_ties_and_short_lists():
    assert rank_correlation([1, 1, 2, 3], [0, 0, 5, 9])[0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"^second must be"):
        rank_correlation([1, 2], [1, 2])
    with pytest.raises(ValueError, match=r"^second must be"):
        rank_correlation([1, 2, 3], [1, 2])


def test_every_attention_map_has_a_prediction():
    excess = predicted_excess()
    assert set(excess) == set(MAPS)
    assert min(excess, key=excess.get) in ("softmax", "softmax-sink", "ssmax", "softplus-biased")
    task = SpikedSLR(9.0, 10)  # that of the stored atlas
    exact = linear_risk(task) - bayes_risk(task).risk
    assert excess["linear"] == max(excess.values()) == pytest.approx(exact, abs=1e-6)
    with pytest.raises(ValueError, match=r"^signal must be one of the stored atlas, got 7\.0$"):
        predicted_excess(7.0)


def test_predictions_stand_beside_means_and_ranges():
    rows = [
        {"test": test, "size": 16, "width": 16, "mixer": name, "accuracy": accuracy}
        for test in ("recall", "max")
        for name, pair in {"softmax": (1.0, 0.8), "relu": (0.5, 0.5), "linear": (0.1, 0.3)}.items()
        for accuracy in pair
    ]
    rows += [{"test": "recall", "size": 16, "width": 8, "mixer": "relu", "accuracy": 0.0}]
    rows += [{"test": "recall", "size": 16, "width": 16, "mixer": "tnl", "accuracy": 0.0}]
    head = {"task": "max", "mixer": "relu", "seed": 0, "status": "sampled"}
    head |= {"predicted_hit_rate": 0.7, "long_hit_rate": 0.6, "hit_rate": 0.8}
    heads = pd.DataFrame([head | {"fitted_hit_rate": rate} for rate in (0.77, 0.7, math.nan)])
    frame = prediction_table(pd.DataFrame(rows), heads)
    recall = frame[frame["panel"] == "recall"].set_index("mixer")
    assert recall["measured"].to_dict() == pytest.approx(
        {"softmax": 0.1, "relu": 0.5, "linear": 0.8}
    )
    assert recall.loc["linear", "low"] == pytest.approx(0.7)
    assert recall.loc["linear", "high"] == pytest.approx(0.9)
    assert (recall["seeds"] == 2).all()
    assert (recall["correlation"] == 1.0).all()
    last = frame[frame["panel"] == "heads"].iloc[0]
    assert (last["predicted"], last["measured"]) == (0.7, 0.6)
    assert frame[frame["panel"] == "heads"]["trusted"].tolist() == [True, False, False]


def test_an_unknown_profile_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^profile must be one of toy, quick, full, got paper$"):
        retrieval_study("paper", tmp_path)


@pytest.mark.extra
def test_pilot_runs_choose_the_learning_rate_of_least_loss(monkeypatch):
    seen = []

    def trained(run, folder=None):
        seen.append(run)
        fake = retrieval_runs.TrainedModel
        best = {"softmax": 3e-3, "tnl": 3e-2}[run.mixer]
        nan_at = run.mixer == "softmax" and run.learning_rate == 3e-2
        status = retrieval_runs.Status.DIVERGED if nan_at else retrieval_runs.Status.SAMPLED
        loss = math.nan if nan_at else abs(math.log(run.learning_rate / best))
        return fake(status, loss, 0.5, run.steps, math.nan, (0.5,), np.zeros(1, np.float32))

    monkeypatch.setattr(retrieval_runs, "train_run", trained)
    rates = (3e-3, 1e-2, 3e-2)
    names = ("softmax", "tnl"), ("softmax",)
    profile = Profile(1, 1, 1, (16,), 40, 20, *names, rates=rates, markov_rates=rates)
    done = study(profile)
    pilots = [run for run in done if run.seed == PILOT_SEED]
    rows = retrieval_runs.pilot_rows({run: done[run] for run in pilots}).values()
    assert len(rows) == 3 * 2 * len(rates)
    chosen = {(row["task"], row["mixer"]): row["learning_rate"] for row in rows if row["chosen"]}
    best = {"softmax": 3e-3, "tnl": 3e-2}
    assert chosen == {(task, name): best[name] for task in TASKS for name in best}
    assert {run.steps for run in pilots if run.task == "recall"} == {20}
    for run in done:
        if run.seed != PILOT_SEED:
            assert run.learning_rate == {"softmax": 3e-3, "tnl": 3e-2}[run.mixer]
    assert len(seen) == len(set(seen))


@pytest.mark.extra
def test_no_run_is_trained_twice(tmp_path, monkeypatch):
    runs = [Run("recall", "softmax", 4, seed, 20, 1e-2) for seed in range(2)]
    with remember(tmp_path / "runs.sqlite"):
        first = run_all(runs, "runs", tmp_path)
    assert list(tmp_path.glob("*.npz")) == []

    def refuse(run, folder=None):
        raise AssertionError("trained again")

    monkeypatch.setattr(retrieval_runs, "train_run", refuse)
    with remember(tmp_path / "runs.sqlite"):
        again = run_all(runs, "runs", tmp_path)
    assert list(again) == list(first) == runs
    for run in runs:
        assert (again[run].vector == first[run].vector).all()
        assert again[run].checks == first[run].checks
    assert (first[runs[0]].vector != first[runs[1]].vector).any()


@pytest.mark.extra
def test_equal_weights_have_entropy_one():
    run = Run("max", "softmax", 16, 0, 1000, 1e-2)
    vector = np.zeros_like(run.model.start(0))
    gaze = retrieval._gaze(retrieval._Trained(run, 20, vector), task_of("max"), 20)
    tokens = task_of("max").length
    expected = {"weight": 1.0 / tokens, "entropy": 1.0, "reading": 1.0}
    assert gaze == pytest.approx(expected, rel=1e-6)


@pytest.mark.extra
def test_where_all_weights_are_zero_nothing_is_read():
    run = Run("max", "relu", 16, 0, 1000, 1e-2)
    vector = np.zeros_like(run.model.start(0))
    vector[-1] = -1.0  # the bias
    gaze = retrieval._gaze(retrieval._Trained(run, 20, vector), task_of("max"), 20)
    assert gaze == pytest.approx(
        {"weight": math.nan, "entropy": math.nan, "reading": 0.0}, nan_ok=True
    )


@pytest.mark.extra
@pytest.mark.parametrize("name", MAPS)
def test_the_activation_of_a_head_has_what_it_learned(name):
    import torch

    task = MaxTask(items=9)
    model = Model.of(task, name, 8)
    vector = model.start(0)
    if MAPS[name].start is not None:
        vector[-1] += 0.3  # the learned number is the last parameter
    drawn = {"seed": 3, "sequences": 6}
    scores, _ = head_scores(model, vector, task, **drawn)
    weights, _ = head_weights(model, vector, task, **drawn)
    activation, factor = head_activation(model, torch.from_numpy(vector), scores.shape[1])
    expected = [activation.weights(factor * row) for row in scores]
    assert weights == pytest.approx(np.array(expected), rel=1e-4, abs=1e-6)


@pytest.mark.extra
def test_a_head_is_measured_by_its_weights_and_not_by_its_scores(monkeypatch):
    """A map may fall: here the token with the least score has the largest weight."""
    run = Run("max", "taylor2-normalised", 16, 0, 1000, 1e-2)
    task = head_task("max")
    rng = np.random.default_rng(0)

    def scores(model, vector, task, *, seed, sequences):
        drawn = task.draw(np.random.default_rng(seed), sequences)
        noise = 0.5 * rng.standard_normal((sequences, task.length))
        noise[np.arange(sequences), drawn.sources[:, 0]] -= 6.0
        return noise, drawn.sources[:, 0]

    def weights(*given, **drawn):
        found, locations = scores(*given, **drawn)
        return 1.0 + found + found**2 / 2.0, locations

    monkeypatch.setattr(heads, "head_scores", scores)
    monkeypatch.setattr(heads, "head_weights", weights)
    row = diagnose_head(run, run.model.start(0), 200)
    assert row["hit_rate"] == row["long_hit_rate"] == 1.0
    assert row["fitted_hit_rate"] < 0.1
    assert row["tokens"] == task.length - 1
    assert {"accuracy", "long_accuracy", "risk", "bayes_risk", "excess"} <= set(row)


def test_equal_weights_share_a_hit_and_weights_of_zero_have_none():
    sizes = np.array([[1.0, 1.0, 0.5], [0.0, 0.0, 0.0], [0.2, 0.1, 0.3]])
    assert heads._hits(sizes, np.array([0, 1, 2])).tolist() == [0.5, 0.0, 1.0]


def test_heads_are_ranked_by_what_is_known_of_them():
    rows = pd.DataFrame(
        {
            "task": "max",
            "status": ["sampled", "boundary", "sampled", "refused"],
            "signal": [1.0, 2.0, 3.0, math.nan],
            "hit_rate": [0.3, 0.2, 0.1, 0.9],
            "accuracy": [0.5, 0.6, 0.7, 0.1],
            "predicted_hit_rate": [0.1, 0.2, 0.3, math.nan],
            "long_accuracy": [0.1, 0.3, 0.4, 0.1],
            "long_hit_rate": [0.1, 0.2, 0.3, 0.9],
        }
    )
    ranks = head_correlations(rows).set_index(["known", "measured"])
    assert (ranks["heads"] == 3).all()
    assert ranks["correlation"].to_dict() == pytest.approx(
        {
            ("signal", "long_error"): -1.0,
            ("hit_rate", "long_error"): 1.0,
            ("error", "long_error"): 1.0,
            ("predicted_hit_rate", "long_hit_rate"): 1.0,
            ("hit_rate", "long_hit_rate"): -1.0,
        }
    )


@pytest.mark.extra
def test_rows_have_the_date_of_the_training(tmp_path, monkeypatch):
    small = Profile(1, 1, 1, (8,), 4, 4, ("tnl",), ("softmax",), (1e-2,), (1e-2,), sequences=8)
    monkeypatch.setitem(retrieval_runs.PROFILES, "toy", small)
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
    retrieval_study("toy", tmp_path)
    with sqlite3.connect(tmp_path / "retrieval-toy.sqlite") as base:
        base.execute("UPDATE points SET finished = '2001-02-03T04:05:06+00:00'")
    again = retrieval_study("toy", tmp_path)
    assert set(again.tests["date"]) == {"2001-02-03"}
    assert len(again.pilots) == 0

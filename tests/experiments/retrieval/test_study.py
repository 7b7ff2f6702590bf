import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from slrlab import SpikedSLR, bayes_risk
from slrlab.experiments.retrieval import runs as retrieval_runs
from slrlab.experiments.retrieval import study as retrieval
from slrlab.experiments.retrieval.prediction import predicted_excess, prediction_table
from slrlab.experiments.retrieval.runs import PILOT_SEED, Profile, Run, run_all, study, task_of
from slrlab.experiments.retrieval.study import (
    ITEMS,
    NEEDLE_LENGTHS,
    data_of_tests,
    failed,
    head_task,
    rank_correlation,
    retrieval_study,
)
from slrlab.experiments.running.parallel import remember
from slrlab.retrieval.attention_maps import MAPS
from slrlab.theory.population.closed_forms import linear_risk

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
    profile = Profile(1, 1, 1, (16,), 40, 20, ("softmax", "tnl"), ("softmax",))
    done = study(profile)
    pilots = [run for run in done if run.seed == PILOT_SEED]
    assert {run.steps for run in pilots if run.task == "recall"} == {20}
    for run in done:
        if run.seed != PILOT_SEED:
            assert run.learning_rate == {"softmax": 3e-3, "tnl": 3e-2}[run.mixer]
    assert len(seen) == len(set(seen))


@pytest.mark.extra
def test_no_run_is_trained_twice_and_a_killed_one_goes_on(tmp_path, monkeypatch):
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
    assert gaze == pytest.approx({"weight": 1.0 / tokens, "entropy": 1.0}, rel=1e-6)

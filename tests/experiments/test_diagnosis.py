"""Diagnosis of a head from its scores: signal, losses, temperature, prediction at other lengths."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from slrlab import (
    MaxSLR,
    Normalised,
    ScalarMap,
    SpikedSLR,
    bayes_risk,
    diagnose_file,
    diagnose_scores,
    hit_rate,
    minimal_risk,
)
from slrlab.experiments.diagnosis.law import ScoreLaw
from slrlab.experiments.diagnosis.measured import offsets, weigh
from slrlab.experiments.diagnosis.scores import head_scores
from slrlab.model.activations import make_activation

TASK = SpikedSLR(signal=6.0, length=12)
SCALE = 1.7


def drawn(task, count, seed=0, length=None):
    return task.sample_scores(np.random.default_rng(seed), count, length or task.length.longest)


def close(value, truth, error):
    """Return whether a number agrees with the truth; 16 groups: Student's t, 1 in 1000 at 4.1."""
    return abs(value - truth) < 4.1 * error


@pytest.fixture(scope="module")
def scores():
    keys, locations = drawn(TASK, 2000)
    return SCALE * keys - 3.0, locations


@pytest.fixture(scope="module")
def head(scores):
    return diagnose_scores(*scores, at=(48,))


def test_signal_risks_and_temperature_of_spiked_scores(head):
    assert head.status == "sampled"
    assert close(head.signal, TASK.signal, head.errors["signal"])
    assert close(head.bayes_risk, bayes_risk(TASK).risk, head.errors["bayes_risk"])
    assert close(head.hit_rate, hit_rate(TASK), head.errors["hit_rate"])
    # the posterior is softmax(√ν χ*): the scores, SCALE·χ*, must be divided by SCALE/√ν
    truth = SCALE / math.sqrt(TASK.signal)
    assert close(head.temperature, truth, head.errors["temperature"])
    assert head.tuned_risk <= head.risk
    assert head.log_sink == -math.inf  # one relevant token in every sequence: no sink helps
    assert head.errors["signal"] < 0.3


def test_theory_of_the_fitted_task_agrees_with_what_is_measured(head):
    for name in ("hit_rate", "risk"):
        gap = getattr(head, f"predicted_{name}") - getattr(head, name)
        assert abs(gap) < 4.1 * math.hypot(head.errors[name], head.errors[f"predicted_{name}"])


def test_prediction_at_four_times_the_length(head):
    keys, locations = drawn(TASK, 2000, seed=7, length=48)
    measured = weigh(head_scores(SCALE * keys, locations), make_activation("softmax"))
    (there,) = head.predictions
    assert there.length == 48
    assert there.hit_rate == pytest.approx(measured.hits, abs=0.05)
    assert there.risk == pytest.approx(measured.risk, abs=0.06)
    assert there.risk > head.risk + 0.1


def test_context_is_where_the_risk_passes_one_half(head):
    exact = [length for length in range(2, 200) if bayes_risk(SpikedSLR(6.0, length)).risk <= 0.5]
    assert close(head.bayes_context, exact[-1], head.errors["bayes_context"])
    assert head.context <= head.bayes_context


def test_a_number_added_to_a_sequence_changes_nothing_for_softmax(scores, head):
    values, locations = scores
    added = 5.0 * np.random.default_rng(1).standard_normal((len(values), 1))
    moved = diagnose_scores(values + added, locations)
    assert moved.offset_share == pytest.approx(25.0 / (25.0 + SCALE**2), abs=0.05)
    assert moved.risk == pytest.approx(head.risk, abs=1e-12)
    assert close(moved.signal, TASK.signal, moved.errors["signal"])


def test_no_offset_is_removed_where_there_is_none(scores):
    head, share = offsets(head_scores(*scores))
    assert share == 0.0
    np.testing.assert_array_equal(head.scores, scores[0])


def test_scores_need_not_be_gaussian(scores, head):
    values, locations = scores
    bent = diagnose_scores(np.sinh((values + 3.0) / 2.0), locations)
    # a monotone map leaves the Bayes risk and the hit rate
    assert bent.hit_rate == head.hit_rate
    assert close(bent.signal, TASK.signal, bent.errors["signal"])
    assert bent.excess > head.excess
    gap = bent.predicted_risk - bent.risk
    assert abs(gap) < 4.1 * math.hypot(bent.errors["risk"], bent.errors["predicted_risk"])


def test_a_log_ratio_that_is_not_linear():
    """Relevant scores with three times the variance: the best predictor gains over softmax."""
    rng = np.random.default_rng(5)
    values = rng.standard_normal((3000, 10))
    locations = rng.integers(10, size=3000)
    values[np.arange(3000), locations] = 2.0 + math.sqrt(3.0) * rng.standard_normal(3000)
    result = diagnose_scores(values, locations)
    assert len(result.task.knots) > 2
    ratio = -((values - 2.0) ** 2) / 6.0 + values**2 / 2.0
    posterior = np.exp(ratio - ratio.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    exact = 1.0 - (posterior**2).sum(axis=1).mean()
    assert result.bayes_risk == pytest.approx(exact, abs=0.02)
    assert minimal_risk(result.task, "softmax").risk > result.bayes_risk + 0.005


def test_the_largest_score_is_relevant():
    """Max-SLR at infinite signal is no tilted task: the fit still has the hit rate."""
    keys, locations = drawn(MaxSLR(math.inf, 8), 1000)
    result = diagnose_scores(keys, locations)
    assert result.hit_rate == 1.0
    assert result.risk < 0.8
    # the independence of the fit fails here, and the two columns say so
    assert result.predicted_hit_rate < 0.97


def test_other_activations_and_lengths():
    rng = np.random.default_rng(2)
    rows, locations = [], []
    for length in rng.integers(3, 9, size=400).tolist():
        keys, place = TASK.sample_scores(rng, 1, length)
        rows.append(keys[0])
        locations.append(int(place[0]))
    relu = diagnose_scores(rows, locations, activation=make_activation("relu", bias=0.0))
    assert relu.task.length.longest == 8
    assert relu.risk > relu.tuned_risk
    assert abs(relu.predicted_risk - relu.risk) < 4.1 * math.hypot(
        relu.errors["risk"], relu.errors["predicted_risk"]
    )
    sparse = diagnose_scores(rows, locations, activation="sparsemax")
    assert 0.0 < sparse.risk < 1.0
    assert math.isnan(sparse.predicted_risk)  # no scalar map: measured only


def test_scores_far_above_all_others_are_reported():
    keys, locations = drawn(SpikedSLR(100.0, 5), 200)
    result = diagnose_scores(keys, locations)
    assert result.status == "boundary"
    assert result.beyond > 0.9
    assert result.hit_rate == 1.0


def test_a_sink_helps_where_some_sequences_hold_nothing():
    rng = np.random.default_rng(3)
    keys, locations = drawn(TASK, 1000)
    empty = rng.standard_normal((1000, 12))
    result = diagnose_scores(
        np.concatenate([keys, empty]), np.concatenate([locations, rng.integers(12, size=1000)])
    )
    assert math.isfinite(result.log_sink)
    assert result.sink_risk < result.tuned_risk - 0.005


def test_results_as_data_and_pictures(head):
    values = json.loads(json.dumps(head.to_dict()))
    assert values["task"] == "measured"
    assert values["predictions"][0]["length"] == 48
    assert "law" not in values
    axes = head.plot()
    assert axes.get_xlabel() == "score"
    assert len(axes.lines) == 2
    columns, rows = head.table()
    assert columns == ["quantity", "measured", "fitted task"]
    assert ["hit_rate at 48", "", f"{head.predictions[0].hit_rate:.4g}"] in rows
    assert "±" in str(rows[0])


def test_the_map_of_scores_has_its_inverse_and_derivatives():
    rng = np.random.default_rng(0)
    law = ScoreLaw.of(np.exp(rng.standard_normal(5000)))
    x = np.linspace(-6.0, 6.0, 41)
    np.testing.assert_allclose(law.normal(law.score(x)), x, atol=2e-5)
    step = 1e-5
    inner = x[np.abs(np.abs(x) - law.x[-1]) > 0.01]
    rise = (law.score(inner + step) - law.score(inner - step)) / (2.0 * step)
    np.testing.assert_allclose(law.score(inner, 1), rise, rtol=1e-4)
    softplus = law.seen_by(make_activation("softplus"))
    u = law.std * np.linspace(-2.0, 2.0, 7)
    slope = (softplus.phi.value(u + step) - softplus.phi.value(u - step)) / (2.0 * step)
    np.testing.assert_allclose(softplus.phi.first(u), slope, rtol=1e-4)
    assert isinstance(softplus, Normalised)
    assert isinstance(softplus.phi, ScalarMap)


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_files(tmp_path, ending):
    keys, locations = drawn(TASK, 64, length=6)
    path = tmp_path / f"head.{ending}"
    if ending == "npz":
        padded = np.concatenate([keys, np.full((64, 2), np.nan)], axis=1)
        np.savez(path, scores=padded, locations=locations)
    else:
        frame = pd.DataFrame({"sequence": np.repeat(np.arange(64), 6), "score": keys.ravel()})
        frame["relevant"] = (np.arange(6) == locations[:, None]).ravel().astype(int)
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    read = diagnose_file(path)
    assert read.risk == pytest.approx(diagnose_scores(keys, locations).risk, rel=1e-9)


GOOD = np.arange(64.0 * 3).reshape(64, 3) % 7.3
ZEROS = np.zeros(64, dtype=int)


@pytest.mark.parametrize(
    ("scores", "locations", "message"),
    [
        (GOOD, ZEROS[:5], "locations must be 64 whole numbers"),
        (GOOD, ZEROS + 0.5, "locations must be one whole number for each sequence"),
        (GOOD, ZEROS + 3, r"locations must be inside its sequence \(0 to 2 in sequence 0\), got 3"),
        (GOOD[:8], ZEROS[:8], "scores must be those of at least 32 sequences, got 8"),
        (GOOD[:, :1], ZEROS, "scores must be two or more for each sequence, got 1"),
        (np.where(GOOD > 7, np.inf, GOOD), ZEROS, "scores must be finite, or -inf for masked"),
        (np.where(GOOD > 7, -np.inf, GOOD), ZEROS, r"not masked by -inf \(sequence 17\), got 0"),
        (np.where(GOOD > 0, -np.inf, GOOD), ZEROS, r"not masked by -inf \(sequence 1\), got 0"),
        (GOOD[:, :2] - [0, np.inf], ZEROS, "scores must be two or more for each sequence, got 1"),
        (GOOD.astype(str)[:, :1] + "x", ZEROS, r"scores must be numbers \(sequence 0\), got"),
        ("abc", ZEROS, "scores must be an array"),
        (np.zeros((64, 3, 2)), ZEROS, "rows with 2 axes"),
        (np.zeros((64, 3)), ZEROS, "scores must be numbers of which few are equal"),
    ],
)
def test_bad_input_names_the_argument(scores, locations, message):
    with pytest.raises((ValueError, TypeError), match=message):
        diagnose_scores(scores, locations)


def test_masked_tokens_do_not_count():
    keys, locations = drawn(TASK, 64, length=6)
    masked = np.full((64, 12), -np.inf)
    places = np.sort(
        np.random.default_rng(4).permuted(np.tile(np.arange(12), (64, 1)), axis=1)[:, :6]
    )
    np.put_along_axis(masked, places, keys, axis=1)
    masked[0, -1] = np.nan  # padding after a mask
    places[0], masked[0, :-1] = np.arange(6), [*keys[0], *[-np.inf] * 5]
    head = head_scores(masked, np.take_along_axis(places, locations[:, None], axis=1)[:, 0])
    np.testing.assert_array_equal(head.scores, keys)
    np.testing.assert_array_equal(head.locations, locations)
    assert set(head.lengths) == {6}


def test_a_free_bias_is_refused(scores):
    with pytest.raises(ValueError, match="bias of erf must be a number, got free"):
        diagnose_scores(*scores, activation="erf")


def test_a_file_that_would_run_code_is_refused(tmp_path):
    path = tmp_path / "head.npz"
    np.savez(path, scores=np.array([[1.0], "x"], dtype=object), locations=ZEROS)
    with pytest.raises(ValueError, match=r"file must be a .npz file with the arrays"):
        diagnose_file(path)

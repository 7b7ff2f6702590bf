"""One sequence: its weights and predictions against the library, and how it grows."""

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, draw_haystack, make_activation, minimal_risk


@pytest.mark.parametrize("task", [SpikedSLR(9.0, 12, 0.3), MaxSLR(2.0, 12)], ids=lambda t: t.name)
def test_weights_and_predictions_are_those_of_the_best_keys(task):
    drawn = draw_haystack(task, ["softmax", "linear", "erf"], seed=3)
    assert list(drawn.weights) == ["Bayes", "softmax", "linear", "erf"]
    assert drawn.weights["Bayes"] == pytest.approx(task.posterior(drawn.scores))
    assert drawn.weights["softmax"] == pytest.approx(drawn.weights["Bayes"], abs=1e-6)
    best = minimal_risk(task, "linear")
    linear = best.m_v * make_activation("linear").weights(best.m_k * drawn.scores)
    assert drawn.weights["linear"] == pytest.approx(linear)
    for name, weights in drawn.weights.items():
        assert drawn.predictions[name] == pytest.approx(weights @ drawn.values)
        assert drawn.needle_weights[name] == weights[drawn.location]
    if task.noise == 0.0:
        assert drawn.label == drawn.values[drawn.location]


def test_a_longer_sequence_keeps_the_relevant_token_and_the_others():
    short, long = (draw_haystack(SpikedSLR(16.0, n), "softmax", seed=5) for n in (10, 1000))
    for column in ("scores", "values"):
        ours, theirs = getattr(short, column), getattr(long, column)
        assert ours[short.location] == pytest.approx(theirs[long.location])
        assert set(np.round(ours, 9)) <= set(np.round(theirs, 9))
    assert long.needle_weights["softmax"] < short.needle_weights["softmax"]


def test_the_relevant_token_follows_the_law_of_the_task():
    """The mean score of the relevant token is √ν; locations are uniform."""
    task = SpikedSLR(4.0, 3)
    optima = {"linear": minimal_risk(task, "linear")}
    draws = [draw_haystack(task, "linear", seed=seed, optima=optima) for seed in range(400)]
    scores = np.array([drawn.scores[drawn.location] for drawn in draws])
    assert abs(scores.mean() - 2.0) < 5.0 / np.sqrt(400)
    counts = np.bincount([drawn.location for drawn in draws], minlength=3)
    assert np.all(np.abs(counts - 400 / 3) < 5.0 * np.sqrt(400 * 2 / 9))


def test_a_table_words_and_a_picture():
    drawn = draw_haystack(SpikedSLR(9.0, 4), "linear", seed=1)
    frame = drawn.to_frame()
    assert list(frame) == ["token", "score", "value", "relevant", "Bayes", "linear"]
    assert frame.loc[frame["relevant"], "value"].item() == drawn.values[drawn.location]
    assert "predicted by Bayes" in str(drawn)
    assert len(drawn.plot().lines) == 2


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="signal must be finite"):
        draw_haystack(SpikedSLR(np.inf, 3))
    with pytest.raises(ValueError, match="seed must be"):
        draw_haystack(SpikedSLR(2.0, 3), seed=-1)
    with pytest.raises(ValueError, match="length must be"):
        draw_haystack(SpikedSLR(2.0, 10**8))

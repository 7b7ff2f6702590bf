"""Length transfer against sampled sequences, closed forms and simulated training."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab import (
    Estimate,
    LengthLaw,
    MaxSLR,
    SpikedSLR,
    Weights,
    draw_dataset,
    length_transfer,
    make_activation,
    minimal_risk,
)
from slrlab.experiments.atlas.transfer import atlas_transfer
from slrlab.experiments.fitted_vectors import fit_vectors
from slrlab.experiments.transfer import RULES
from slrlab.model.activations import ACTIVATIONS
from slrlab.simulation.training.erm import fresh_risk, start_weights
from slrlab.simulation.training.optimiser import train

TASK = SpikedSLR(4.0, 4, noise=0.3)


def sampled_risk(task, activation, length, keys, values, samples, seed):
    """Return mean and standard error of the squared error of ``keys`` and ``values``.

    Keys and values are ``(m, R)``. Sequences are drawn in full: scores, location and label.
    """
    rng = np.random.default_rng(seed)
    (m_k, R_k), (m_v, R_v) = keys, values
    chi, z = rng.standard_normal((2, samples, length))
    chi[:, 0] += math.sqrt(task.signal)  # the location is uniform: the first token, say
    label = z[:, 0] + task.noise * rng.standard_normal(samples)
    noise_k, noise_v = rng.standard_normal((2, samples, length))
    weights = activation.weights(m_k * chi + math.sqrt(R_k) * noise_k)
    predicted = (weights * (m_v * z + math.sqrt(R_v) * noise_v)).sum(axis=-1)
    errors = (label - predicted) ** 2
    return errors.mean(), errors.std(ddof=1) / math.sqrt(samples)


@pytest.mark.parametrize("name", ["sparsemax", "ssmax"])
@pytest.mark.parametrize(("fit", "use"), [(4, 12), (9, 3)])
def test_the_risk_is_that_of_sampled_sequences(name, fit, use):
    result = length_transfer(TASK, name, fit=fit, use=use, rule=["constant", "log"])
    outcome = minimal_risk(replace(TASK, length=LengthLaw.of(fit)), name)
    constant, log = result.points
    for seed, point in enumerate((constant, log)):
        factor = math.log(use) / math.log(fit) if point.rule == "log" else 1.0
        keys, values = (factor * outcome.m_k, 0.0), (outcome.m_v, 0.0)
        activation = make_activation(name)
        risk, error = sampled_risk(TASK, activation, use, keys, values, 80_000, seed)
        assert abs(point.risk - risk) < 3.0 * error
    assert abs(constant.risk - log.risk) > 6.0 * error  # the sample tells the rules apart


def test_at_the_length_of_the_fit_nothing_changes():
    for task, name in [(TASK, "erf"), (TASK, "relu-over-length"), (MaxSLR(3.0, 4), "linear")]:
        points = length_transfer(task, name, fit=(3, 6), use=(3, 6), rule=RULES).points
        assert len(points) == 16
        for point in points:
            wanted = minimal_risk(replace(task, length=LengthLaw.of(point.use)), name)
            assert point.refitted_risk == pytest.approx(wanted.risk, rel=1e-8)
            if point.fit == point.use:
                assert point.risk == pytest.approx(wanted.risk, rel=1e-6)
                assert point.factor == pytest.approx(1.0, abs=5e-3)
            else:
                assert point.risk > wanted.risk


@pytest.mark.parametrize("task", [SpikedSLR(9.0, 2), MaxSLR(2.0, 2)])
def test_softmax_with_infinite_data_needs_no_retuning(task):
    result = length_transfer(task, fit=(2, 10), use=(3, 40), rule=["constant", "best"])
    for point in result.points:
        assert abs(point.loss) < 1e-9
        assert point.factor == pytest.approx(1.0, abs=1e-3)
    (scaled,) = length_transfer(task, fit=2, use=40, rule="log", refit=False).points
    assert scaled.loss > 0.01


def test_maps_that_tend_to_softmax_transfer_like_it():
    task = SpikedSLR(9.0, 2)
    wanted = length_transfer(task, "softmax", fit=4, use=30, rule="log", refit=False).points[0]
    (point,) = length_transfer(task, "softplus-biased", fit=4, use=30, rule="log").points
    assert (point.bias, point.risk) == (-math.inf, pytest.approx(wanted.risk, rel=1e-9))
    assert math.isnan(wanted.refitted_risk)


def test_infinite_keys_are_the_limit_of_long_ones():
    arguments = {"fit": 10, "use": 20, "rule": "log", "refit": False}
    (point,) = length_transfer(SpikedSLR(9.0, 2), "elu1", **arguments).points
    assert (point.m_k, point.status) == (math.inf, "limit")
    long, values = (3000.0, 0.0), (point.m_v, 0.0)
    elu = make_activation("elu1")
    risk, error = sampled_risk(SpikedSLR(9.0, 20), elu, 20, long, values, 40_000, 3)
    assert abs(point.risk - risk) < 3.0 * error
    (lost,) = length_transfer(MaxSLR(math.inf, 2), "hedgehog", fit=3, use=5).points
    assert (lost.status, math.isnan(lost.risk)) == ("failed", True)
    assert "the best keys of hedgehog at length 3 are infinite" in lost.note


def test_the_best_factor_of_noisy_keys_is_that_of_the_posterior():
    # scores m χ* + √R n have the posterior softmax(√ν (m/q) χ): at every length, if v fits
    vectors = fit_vectors(SpikedSLR(4.0, 5), make_activation("softmax"), math.inf, {})
    vectors = replace(vectors, m_k=0.8, R_k=0.5)
    for length in (3, 200):
        factor, status = vectors.best_factor(SpikedSLR(4.0, length))
        assert status == "converged"
        assert factor == pytest.approx(2.0 * 0.8 / (0.8**2 + 0.5), rel=2e-3)
    steep = replace(vectors, m_k=1e-3, R_k=0.0)
    assert steep.best_factor(SpikedSLR(4.0, 3)) == (pytest.approx(16.0), "boundary")
    flat = fit_vectors(SpikedSLR(4.0, 5), make_activation("hardmax"), math.inf, {})
    assert flat.best_factor(SpikedSLR(4.0, 50)) == (1.0, "converged")


def test_the_best_factor_of_a_projection_that_needs_a_fine_rule():
    arguments = {"fit": 10, "use": 1000, "rule": "best", "refit": False}
    (point,) = length_transfer(SpikedSLR(9.0, 10), "normmax-2", **arguments).points
    assert point.status == "converged"
    assert point.factor == pytest.approx(0.62, abs=0.01)
    assert point.loss < 0.09


def test_a_factor_is_checked_against_none(monkeypatch):
    vectors = fit_vectors(SpikedSLR(4.0, 5), make_activation("softmax"), math.inf, {})
    monkeypatch.setattr(type(vectors), "_search", lambda *_: (0.5, "converged"))
    assert vectors.best_factor(SpikedSLR(4.0, 5)) == (1.0, "inaccurate")


SEVERAL = ["softmax", "linear", "normmax-2", "as-entmax", "relu", "consmax"]


def test_the_table_of_several_activations():
    frame = atlas_transfer(SEVERAL, fit=4, use=(2, 30), workers=1)
    assert len(frame) == len(SEVERAL) * 2 * len(RULES)
    linear = frame[(frame["activation"] == "linear") & (frame["rule"] == "constant")]
    assert (linear["loss"] > linear["refitted_loss"]).all()
    best = frame[frame["rule"] == "best"].set_index(["activation", "use"])["loss"]
    for rule in RULES[:3]:
        others = frame[frame["rule"] == rule].set_index(["activation", "use"])["loss"]
        assert (best <= others + 1e-9).all()


def test_the_page_has_the_numbers_of_the_stored_table():
    docs = Path(__file__).parents[2] / "docs"
    table = pd.read_csv(docs / "assets" / "tables" / "length-transfer-atlas.csv")
    page = (docs / "guide" / "length-transfer.md").read_text(encoding="utf-8")
    losses = table.set_index(["activation", "rule", "use"])
    assert set(table["activation"]) == set(ACTIVATIONS)
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in row] for row in rows if len(row) == 7 and "," not in row[0]]
    assert len(rows) == 14
    for name, *cells in rows:
        name = name.strip("`")
        best = losses.loc[(name, "best", 1000)]
        wanted = [losses.loc[(name, "constant", use), "loss"] for use in (2, 100, 1000)]
        wanted += [best["factor"], best["loss"], best["refitted_loss"]]
        for cell, value in zip(cells, wanted, strict=True):
            shown = 1.0 / 16.0 if cell.startswith("1/16") else float(cell)
            digits = len(cell.partition(".")[2].split(" ")[0])
            assert abs(shown - value) <= 0.5001 * 10.0**-digits, (name, cell, value)
    rules = losses["loss"].unstack("rule")
    assert (rules["best"] <= rules.min(axis=1) + 1e-6).all()
    refitted = losses["refitted_loss"].xs(("best", 1000), level=("rule", "use"))
    powers = refitted[["softplus", "elu1", "taylor2-normalised", "spherical-2"]]
    assert np.allclose(powers, [0.93, 0.93, 0.86, 0.86], atol=0.005)


def test_a_picture_of_maps_and_one_of_curves():
    import matplotlib.pyplot as plt

    grid = length_transfer(TASK, "linear", fit=(2, 4), use=(2, 4, 8), rule=["log", "constant"])
    figure, (left, right) = plt.subplots(1, 2)
    values = grid.plot(left, rule="constant").collections[0].get_array()
    wanted = [point.loss for point in grid.points if point.rule == "constant"]
    assert np.allclose(np.ravel(values), wanted)
    assert left.get_ylabel() == "length of the fit"
    curve = length_transfer(TASK, "linear", fit=2, use=(2, 4, 8), rule=["log", "constant"])
    texts = [text.get_text() for text in curve.plot(right).get_legend().get_texts()]
    assert set(texts) == {"log", "constant", "refitted"}
    with pytest.raises(ValueError, match=r"^rule must be one of constant, log, got best"):
        grid.plot(rule="best")
    plt.close(figure)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fit": 1}, "fit must be a whole number >= 2, got 1"),
        ({"use": [3, 2.5]}, "use must be a whole number >= 2, got 2.5"),
        ({"use": []}, "use must be whole numbers >= 2, got an empty list"),
        ({"rule": "linear"}, "rule must be one of constant, sqrt-log, log, best, got linear"),
        ({"alpha": 0.0}, "alpha must be a number > 0 or inf, got 0.0"),
        ({"ridge_k": 1.0, "ridge_v": 1.0}, "alpha must be a finite number > 0 for a training"),
        ({"activation": "hardmax", "alpha": 2.0}, "activation must be continuous to be trained"),
        ({"task": SpikedSLR(math.inf, 3)}, "signal must be finite: else the best keys"),
        ({"task": "spiked"}, "task must be a Task such as"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments, message):
    with pytest.raises((ValueError, TypeError)) as error:
        length_transfer(**({"task": TASK} | arguments))
    assert str(error.value).startswith(message)


@pytest.mark.slow
def test_a_length_seen_by_the_activation_is_the_size_of_the_vectors_in_training():
    ridges = {"ridge_k": 0.5, "ridge_v": 0.8, "tolerance": 2e-2, "seed": 0}
    plain = fit_vectors(SpikedSLR(4.0, 5), make_activation("softmax"), 4.0, ridges)
    seen = ridges | {"ridge_k": 0.5 * math.log(5.0) ** 2}
    scaled = fit_vectors(SpikedSLR(4.0, 5), make_activation("ssmax"), 4.0, seen)
    assert scaled.m_k * math.log(5.0) == pytest.approx(plain.m_k, rel=1e-9)
    assert scaled.setting.ridge_k == pytest.approx(seen["ridge_k"])
    task = SpikedSLR(4.0, 50)
    factor = math.log(50.0) / math.log(5.0)
    assert scaled.risk_at(task, 1.0)[0] == pytest.approx(plain.risk_at(task, factor)[0], rel=1e-6)


@pytest.mark.slow
def test_trained_vectors_are_those_of_simulated_training():
    """Train in D dimensions at one length, and measure on fresh sequences of another."""
    fit, use, dim, seeds = 3, 12, 400, 6
    ridges, rules = {"ridge_k": 0.5, "ridge_v": 0.8}, ("constant", "log")
    short, long = SpikedSLR(2.0, fit), SpikedSLR(2.0, use)
    points = length_transfer(
        short, fit=fit, use=use, rule=rules, alpha=4.0, refit=False, **ridges
    ).points
    softmax = make_activation("softmax")
    risks = np.empty((seeds, len(points)))
    for seed in range(seeds):
        data = draw_dataset(short, dim=dim, samples=4 * dim, seed=seed)
        start = start_weights("informed", data.teacher, softmax, seed)
        trained = train(data, softmax, start=start, **ridges).weights
        for column, point in enumerate(points):
            used = Weights(point.factor * trained.k, trained.v)
            fresh = fresh_risk(long, softmax, used, data.teacher, samples=8000, seed=seed)
            risks[seed, column] = fresh.value
    for column, point in enumerate(points):
        assert point.status == "sampled"
        assert abs(Estimate.of(risks[:, column]).z_score(Estimate(point.risk, point.error))) < 3.0
    # the two rules differ by more than any error
    assert abs(points[0].risk - points[1].risk) > 10.0 * max(point.error for point in points)

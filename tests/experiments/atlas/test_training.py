import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slrlab import (
    Estimate,
    OrderParameters,
    SpikedSLR,
    erm_theory,
    gradient_flow,
    hit_rate,
    minimal_risk,
    optimal_ridge,
    weight_statistics,
)
from slrlab._result import Status
from slrlab.experiments.atlas import training as atlas_module
from slrlab.experiments.atlas.panel import atlas
from slrlab.experiments.atlas.training import (
    FRACTION,
    JUMPS,
    NOTHING_LEARNED,
    STARTS,
    TASK,
    TOLERANCE,
    WORSE,
    atlas_training,
)
from slrlab.experiments.atlas.training_table import (
    comparable,
    rank_agreement,
    read_training,
    training_texts,
)
from slrlab.figures.atlas import write_atlas

NAMES = ["linear", "softmax", "hardmax"]
ALPHA = 8.0


@pytest.fixture(scope="module")
def frame():
    return atlas_training(NAMES, alphas=[ALPHA], workers=1)


def row_of(frame, name, alpha):
    return frame[(frame["activation"] == name) & (frame["alpha"] == alpha)].iloc[0]


def test_each_activation_has_a_row_for_each_alpha_and_one_for_infinite_data(frame):
    rows = list(zip(frame["activation"], frame["alpha"], strict=True))
    assert rows == [(name, alpha) for name in NAMES for alpha in (ALPHA, math.inf)]


def test_softmax_is_best_at_every_alpha_and_above_what_any_method_learns(frame):
    softmax, linear = (row_of(frame, name, ALPHA) for name in ("softmax", "linear"))
    one, two = (Estimate(row["risk"], row["error"]) for row in (softmax, linear))
    assert two.z_score(one) > 3.0
    assert one.value - 3.0 * one.error > softmax["bayes_risk"]
    assert softmax["excess"] == pytest.approx(softmax["risk"] - softmax["bayes_risk"])
    assert one.value > row_of(frame, "softmax", math.inf)["risk"]
    assert rank_agreement(frame) == {ALPHA: pytest.approx(1.0)}


def test_numbers_are_those_of_the_best_ridge(frame):
    row = row_of(frame, "linear", ALPHA)
    best = optimal_ridge(TASK, "linear", alpha=ALPHA, tolerance=TOLERANCE)
    assert row["risk"] == pytest.approx(best.test_risk, abs=best.test_risk_error)
    assert row["replicon"] == pytest.approx(best.replicon, rel=1e-6)
    assert row["stable"] == best.stable
    assert row["status"] == str(best.status)


def test_what_trained_weights_do_is_what_the_order_parameters_say(frame):
    softmax = row_of(frame, "softmax", ALPHA)
    order = OrderParameters(softmax["m_k"], softmax["m_v"], softmax["q_k"] - softmax["m_k"] ** 2)
    exact = weight_statistics(TASK, "softmax", order, samples=200_000)
    assert softmax["hit_rate"] == pytest.approx(hit_rate(TASK, order), rel=1e-9)
    assert softmax["mean_weight"] == pytest.approx(exact.mean_weight, rel=1e-6)
    for name in ("entropy", "miscalibration"):
        error = exact.errors[name] * math.sqrt(1.0 + 200_000 / 65536)
        assert abs(softmax[name] - getattr(exact, name)) < 4.0 * error, name
    limit = row_of(frame, "softmax", math.inf)
    assert limit["hit_rate"] == pytest.approx(hit_rate(TASK), rel=1e-9)
    assert limit["hit_rate"] > softmax["hit_rate"]
    assert limit["miscalibration"] < 1e-6
    assert math.isnan(row_of(frame, "hardmax", ALPHA)["hit_rate"])
    assert row_of(frame, "hardmax", math.inf)["hit_rate"] == limit["hit_rate"]


def test_the_risk_is_that_of_the_theory_at_its_ridges_on_another_sample(frame):
    row = row_of(frame, "linear", ALPHA)
    ridges = {"ridge_k": row["ridge_k"], "ridge_v": row["ridge_v"]}
    theory = erm_theory(TASK, "linear", alpha=ALPHA, **ridges, tolerance=2e-3, seed=7)
    assert abs(theory.risk.z_score(Estimate(row["risk"], row["error"]))) < 3.0


def test_a_refusal_is_told_in_the_words_of_the_theory(frame):
    with pytest.raises((TypeError, ValueError)) as training:
        optimal_ridge(TASK, "hardmax", alpha=ALPHA)
    with pytest.raises((TypeError, ValueError)) as flow:
        gradient_flow(TASK, "hardmax")
    finite, limit = (row_of(frame, "hardmax", alpha) for alpha in (ALPHA, math.inf))
    assert finite["reason"] == str(training.value)
    assert limit["reason"] == str(flow.value)
    assert math.isnan(finite["risk"])
    assert math.isnan(limit["training_time"])
    assert limit["risk"] == minimal_risk(TASK, "hardmax").risk
    assert (frame.loc[frame["activation"] != "hardmax", "reason"] == "").all()


def covered(name, time):
    """Return the part of the way to the least risk that each flow has covered at a time."""
    least = minimal_risk(TASK, name).risk
    flows = [gradient_flow(TASK, name, seed=n, time=time, times=[0, time]) for n in range(STARTS)]
    return [(flow.risk[0] - flow.risk[-1]) / (flow.risk[0] - least) for flow in flows]


@pytest.mark.slow
def test_the_training_time_is_when_the_flows_have_covered_the_fraction(frame):
    row = row_of(frame, "linear", math.inf)
    assert row["reached"] == STARTS
    # the flow with the median time has the median of what is covered then
    assert np.median(covered("linear", row["training_time"])) == pytest.approx(FRACTION, abs=2e-3)
    assert min(covered("linear", row["slowest_time"])) == pytest.approx(FRACTION, abs=2e-3)


@pytest.mark.slow
def test_a_flow_that_ends_at_another_minimum_never_gets_there():
    row = atlas_training(["laplace"], alphas=[], workers=1).iloc[0]
    assert gradient_flow(TASK, "laplace", seed=0).minimum == "mismatched"
    assert 0 < row["reached"] < STARTS
    assert row["slowest_time"] == math.inf


def test_mismatched_minima_have_the_risks_of_figure_5():
    task = SpikedSLR(2.0, 10)
    frame = atlas_training(["softmax", "linear"], task=task, alphas=[], workers=1)
    softmax, linear = (row_of(frame, name, math.inf) for name in ("softmax", "linear"))
    assert softmax["mismatched"] == "exists"
    assert softmax["mismatched_risk"] == pytest.approx(0.93, abs=5e-3)
    assert linear["mismatched"] == "at infinity"
    assert linear["mismatched_risk"] == pytest.approx(0.83, abs=5e-3)


@pytest.mark.parametrize("above", [0.0, 0.06])
def test_a_risk_that_is_trivial_or_worse_is_marked_and_has_no_rank(frame, monkeypatch, above):
    """A search among ridges at which nothing is learned ends where it starts."""
    there = erm_theory(TASK, "linear", alpha=ALPHA, ridge_k=1e3, ridge_v=1e3, tolerance=0.1)
    stuck = replace(there, test_risk=TASK.trivial_risk + above, test_risk_error=0.0)
    monkeypatch.setattr(atlas_module, "trained_curve", lambda *_: [stuck])
    row = atlas_training(["hardmax"], alphas=[ALPHA], workers=1).iloc[0]
    assert row["reason"] == NOTHING_LEARNED
    assert row["status"] == "not converged"
    assert math.isnan(row["risk"])
    moved = frame.copy()
    moved.loc[0, ["risk", "reason"]] = 0.0, NOTHING_LEARNED  # of linear: it would be the best
    assert math.isnan(rank_agreement(moved)[ALPHA])  # only softmax is left


@pytest.mark.slow
def test_a_number_that_is_not_to_be_trusted_has_its_reason(monkeypatch):
    theory = erm_theory(TASK, "linear", alpha=ALPHA, ridge_k=1e3, ridge_v=1e3, tolerance=0.1)
    for status, replicon, words in (
        (Status.UNSTABLE, 1.5, "replica symmetry is unstable at α = 8 (replicon 1.5)"),
        (Status.UNSTABLE, 0.5, "the prox jumps at α = 8"),
        (Status.DIVERGED, 0.5, "no solution"),
    ):
        result = replace(theory, test_risk=0.5, replicon=replicon, status=status)
        monkeypatch.setattr(atlas_module, "trained_curve", lambda *_, result=result: [result])
        row = atlas_training(["linear"], alphas=[ALPHA], workers=1).iloc[0]
        assert words in row["reason"]
        assert row["status"] == str(status)


def test_a_risk_is_compared_if_it_has_no_reason_against_it_or_an_interval(frame):
    frame = frame[frame["activation"] == "linear"].iloc[[0] * 5].reset_index(drop=True)
    cases = [("sampled", "", 0.5), ("sampled", WORSE, 0.5), ("unstable", "jumps", 0.5)]
    cases += [("unstable", "unstable", 1.5), ("not converged", NOTHING_LEARNED, 0.5)]
    for key, values in zip(("status", "reason", "replicon"), zip(*cases, strict=True), strict=True):
        frame[key] = values
    assert comparable(frame).tolist() == [True, True, True, False, False]


def test_the_table_of_the_documentation_has_the_correlations_of_its_page():
    docs = Path(__file__).parents[3] / "docs"
    frame = read_training(docs / "assets" / "tables" / "atlas-training.csv")
    found = rank_agreement(frame)
    words = ", ".join(f"{found[alpha]:.2f}" for alpha in (2.0, 8.0, 32.0))
    assert words == "0.86, 0.96, 0.96"
    page = (docs / "atlas.md").read_text(encoding="utf-8")
    assert "0.86 at 2 samples per dimension, 0.96 at 8 and 0.96 at 32" in page


def test_a_table_is_read_as_it_was_written(frame, tmp_path):
    frame.to_csv(tmp_path / "table.csv", index=False)
    again = read_training(tmp_path / "table.csv")
    assert comparable(again).tolist() == comparable(frame).tolist()
    for column in ("length", "status", "mismatched", "reason"):
        assert again[column].tolist() == frame[column].astype(str).tolist()


def test_weights_that_grow_with_a_learned_bias_may_be_worse_than_nothing():
    theory = erm_theory(TASK, "relu2", alpha=ALPHA, ridge_k=1.0, ridge_v=200.0, tolerance=0.1)
    result = replace(theory, test_risk=1.06, test_risk_error=0.0, status=Status.SAMPLED)
    rows = atlas_module._finite_rows("relu2", TASK, [ALPHA], [result], {ALPHA: "none"})
    assert rows[0]["risk"] == 1.06
    assert rows[0]["reason"] == WORSE


def test_a_factor_of_the_length_leaves_the_mismatched_minimum_of_one_length():
    scaled, plain = (atlas_module._mismatched(name, TASK) for name in ("ssmax", "softmax"))
    assert scaled["mismatched"] == plain["mismatched"] == "exists"
    assert scaled["mismatched_risk"] == pytest.approx(plain["mismatched_risk"], abs=1e-6)


def test_weights_that_jump_have_no_theory_of_training():
    part = ("training", "relu2-normalised", TASK, (ALPHA,), TOLERANCE)
    assert atlas_module._compute(part) == JUMPS


def test_texts_have_the_risks_and_the_reasons(frame):
    columns, cells = training_texts(frame)
    assert columns[0] == "α = 8"
    assert all(len(line) == len(columns) for line in cells.values())
    row = row_of(frame, "softmax", ALPHA)
    assert cells["softmax"][0].startswith(str(Estimate(row["risk"], row["error"])))
    assert cells["hardmax"][0] == "–"
    assert "continuous" in cells["hardmax"][-1]


@pytest.mark.slow
def test_the_files_of_the_atlas_have_the_columns_of_training(frame, tmp_path):
    from PIL import Image

    infinite = atlas(NAMES, panel=[TASK], workers=1)
    paths = {path.name: path for path in write_atlas(infinite, tmp_path, training=frame)}
    assert {"atlas-training.csv", "atlas-training.png"} < set(paths)
    text, page = (paths[name].read_text(encoding="utf-8") for name in ("atlas.md", "atlas.html"))
    for words in ("α = 8", "continuous", "training time"):
        assert words in text
        assert words in page
    with Image.open(paths["atlas-training.png"]) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert len(colours) > 50


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"alphas": [0.0]}, ValueError, "alphas must be"),
        ({"task": "spiked"}, TypeError, "task must be"),
        ({"activations": ["softmaxx"]}, ValueError, "activation must be"),
        ({"tolerance": -1.0}, ValueError, "tolerance must be"),
    ],
)
def test_wrong_arguments_are_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        atlas_training(**arguments)

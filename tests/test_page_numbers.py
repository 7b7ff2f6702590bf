"""Numbers that pages read from the stored tables of the full profiles, against these tables."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab import MaxSLR, minimal_risk

DOCS = Path(__file__).resolve().parents[1] / "docs"


def table(name):
    """Return a stored table of a full profile."""
    return pd.read_csv(DOCS / "assets" / "tables" / f"figure-{name}-full.csv")


def words(page):
    """Return a page on one line."""
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


TRAINED = words("theory/trained-attention.md")


def test_figure_3_where_training_has_the_ridge_of_the_theory():
    frame = table("3")
    same = frame[
        np.isclose(frame["ridge_k"], frame["simulated_ridge_k"])
        & np.isclose(frame["ridge_v"], frame["simulated_ridge_v"])
    ]
    gaps = (same["risk"] - same["simulated_risk"]).abs()
    assert (same["status"] == "boundary").sum() == 1
    assert f"At the {len(same)} points where training chose the theory's ridge" in TRAINED
    said = f"agree to {gaps.mean():.3f} on average, and to {gaps.max():.3f} at worst"
    assert said in TRAINED
    limits = f"agree to {gaps.max():.3f} at the {len(same)} points of"
    assert limits in words("theory/limits.md")


def test_figure_3_softmax_and_linear_attention():
    frame = table("3")
    trained = frame[frame["simulated_risk"].notna()].set_index(["task", "signal", "alpha"])
    softmax, linear = (trained[trained["curve"] == name] for name in ("softmax", "linear"))
    above = softmax["simulated_risk"] - linear["simulated_risk"]
    (tie,) = above[above > 0.0].index
    numbers = [
        f"{side.loc[tie, 'simulated_risk']:.3f} ± {side.loc[tie, 'simulated_error']:.3f}"
        for side in (softmax, linear)
    ]
    assert tie[:2] == ("spiked", 1.0)
    assert f"$\\alpha = {tie[2]:.2f}$ ({' and '.join(numbers)})" in TRAINED
    for signal in (3.0, np.inf):
        row = softmax.loc[("max", signal, 0.5)]
        of = (frame["task"] == "max") & (frame["signal"] == signal) & (frame["alpha"] == 0.5)
        (bayes,) = frame.loc[of & (frame["curve"] == "bayes"), "risk"]
        said = f"{row['simulated_risk']:.4f} ± {row['simulated_error']:.4f} against {bayes:.4f}"
        assert said in TRAINED


def test_figure_6_inside_and_outside():
    frame = table("6")
    fine = frame[frame["status"] == "sampled"]
    counts = fine["activation"].value_counts()
    said = f"({counts['softmax']} pairs of ridges for softmax, {counts['linear']} for linear"
    assert said in TRAINED
    gaps = (fine["test_risk"] - fine["simulated_risk"]).abs()
    assert f"is {gaps.median():.3f}, the largest {gaps.max():.3f}. Of these {len(fine)}" in TRAINED
    rest = frame[frame["status"] != "sampled"]
    fall = rest["test_risk"] - rest["simulated_risk"]
    said = f"lower in {(fall > 0).sum()} of {len(rest)} cases, by up to {fall.max():.2f}."
    assert said in TRAINED
    late = (rest["simulated_status"] != "sampled").sum()
    assert f"{late} did not reach the tolerance" in TRAINED
    assert (fine["simulated_status"] == "sampled").all()
    assert f"in {fine['simulated_iterations'].median():.0f} passes at the median" in TRAINED


def test_figure_7_two_starts():
    frame = table("7")
    keys = ["activation", "length", "alpha"]
    starts = frame.pivot_table(index=keys, columns="start", values="simulated_risk")
    apart = (starts["random"] - starts["informed"]).reset_index()
    few = (apart["activation"] == "softmax") & (apart["alpha"] <= 2.0)
    assert f"same risk to {apart[~few][0].abs().max():.3f}, but for softmax" in TRAINED
    assert f"ends higher by up to {apart[few][0].max():.3f}." in TRAINED
    gaps = (frame["simulated_risk"] - frame["risk"]).abs()
    said = f"differs from the theory by {gaps.mean():.3f} on average, and by {gaps.max():.3f}"
    assert said in TRAINED


def test_agreement():
    frame = table("agreement")
    scores = [f"{np.sqrt((part['z'] ** 2).mean()):.2f}" for _, part in frame.groupby("dim")]
    text = words("guide/simulation.md")
    assert f"of the normal scores is {scores[0]}, {scores[1]} and {scores[2]}," in text
    least = frame["p_value"].min()
    said = f"all {len(frame)} p-values is {least:.4f}, or {least * len(frame):.2f} after"
    assert said in text


def test_needle_story_of_figure_length():
    """What the story says of the middle panel, and of its cross."""
    assert re.search(r"At signal 10 \(middle\)", words("start/why-softmax.md"))
    assert minimal_risk(MaxSLR(10.0, 10**6), "softmax").risk < 0.5
    assert all(minimal_risk(MaxSLR(10.0, 10**n), "erf").risk > 0.5 for n in (2, 3, 4, 5, 6))
    assert minimal_risk(MaxSLR(10.0, 32), "softplus").status == "boundary"


@pytest.mark.parametrize("name", ["3", "6", "7", "agreement"])
def test_the_tables_are_those_of_the_full_profile(name):
    assert set(table(name)["profile"]) == {"full"}


TRANSFER = words("guide/length-transfer.md")
RULES = ("constant", "sqrt-log", "log", "best")


def stored(name):
    """Return a stored table of length transfer."""
    return pd.read_csv(DOCS / "assets" / "tables" / f"length-transfer-{name}.csv")


def test_length_transfer_after_training():
    frame = stored("trained")
    point = frame.set_index(["fit", "alpha", "use", "rule"])
    for fit, alpha in ((10, 2), (10, 8), (3, 4)):
        own = point.loc[fit, alpha].xs("best", level="rule")
        c = 3.0 * own["m_k"].iloc[0] / own["q_k"].iloc[0]
        cells = " | ".join(f"{number:.2f}" for number in (c, *own["factor"]))
        assert f"| $L_0 = {fit}$, $\\alpha = {alpha}$ | {cells} |" in TRANSFER
    frame["bound"] = frame["error"] / (1.0 - frame["bayes_risk"])
    shown = frame[(frame["fit"] == 10) & (frame["use"] >= 100)]
    for (alpha, use), part in shown.groupby(["alpha", "use"]):
        losses = part.set_index("rule")["loss"]
        cells = " | ".join(f"{losses[rule]:.2f}" for rule in RULES)
        assert f"| {alpha:g} | {use if use < 10_000 else f'{use:,}'} | {cells} |" in TRANSFER
    middle = shown.loc[shown["use"] <= 1000, "bound"]
    said = f"{middle.min():.2f} to {middle.max():.2f} up to length 1000, and"
    assert f"{said} {shown['bound'].max():.2f} at most" in TRANSFER
    here = point.xs((10, "constant"), level=("use", "rule"))
    for alpha, said in ((2, "{:.2f} after training at length 3"), (8, "({:.2f} and {:.2f})")):
        assert said.format(here["risk"][3, alpha], here["risk"][10, alpha]) in TRANSFER
    assert f"{here['risk'][10, 2]:.2f} after training at length 10 itself" in TRANSFER
    exact = here["m_v"] ** 2 / here["q_v"]
    assert f"$m_v^2/q_v = {exact[3, 2]:.3f}$) and not after the latter ({exact[10, 2]:.3f})" in (
        TRANSFER
    )


def test_length_transfer_of_the_atlas():
    frame = stored("atlas")
    frame = frame[(frame["use"] != frame["fit"]) & frame["rule"].isin(["constant", "best"])]
    frame = frame.set_index(["activation", "use", "rule"])
    exact = ["softmax", "softplus-biased", "elu1-biased", "hedgehog", "softmax-sink"]
    assert frame.loc[exact].xs("constant", level="rule")["loss"].abs().max() < 1e-9
    near = frame.loc[["softmax-1", "softpick", "sigsoftmax", "softcap-50"]]
    assert near.xs("constant", level="rule")["loss"].max() < 0.00115
    factors = near.xs((1000, "best"), level=("use", "rule"))["factor"]
    assert f"{factors.min():.3f} to {factors.max():.2f}" in TRANSFER

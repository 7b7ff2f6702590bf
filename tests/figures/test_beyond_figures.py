"""The figures of the full report alone: toys, and the stored tables of the full profile."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab.experiments.comparison.universality import LAWS, UNCORRELATED
from slrlab.experiments.departures import BEST
from slrlab.figures import make_figure
from slrlab.figures.figure_agreement import bound
from slrlab.figures.registry import figure_module

TABLES = Path(__file__).parents[2] / "docs" / "assets" / "tables"
# lines with points in each panel of the toy
LINES = {
    "departures": [5, 5, 5, 5, 4, 4, 4, 3],
    "heads": [6, 5, 5, 3],
    "labels": [9, 7, 9],
    "marion": [7, 2, 2],
    "specialisation": [9, 5, 4],
    "sphere": [3, 4, 2, 4, 5, 8, 4, 4],
    "universality": [9, 9, 20, 20],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_toy_is_computed_and_drawn(name, tmp_path):
    paths = make_figure(name, tmp_path, profile="toy")
    frame = pd.read_csv(paths[0])
    assert set(frame["profile"]) == {"toy"}
    figure = figure_module(name).draw(frame)
    assert figure.legends
    lines = [[line for line in axes.lines if len(line.get_xdata())] for axes in figure.axes]
    assert list(map(len, lines)) == LINES[name]


@pytest.fixture(scope="module")
def departures():
    return pd.read_csv(TABLES / "figure-departures-full.csv")


def test_softmax_is_best_at_the_origin_alone(departures):
    softmax = departures[departures["activation"] == "softmax"].set_index(["panel", "value"])
    for panel, origin in (("similarity", 0.0), ("needles", 1.0), ("variance", 1.0)):
        assert abs(softmax["excess"][panel, origin]) < 1e-9
        away = softmax.loc[panel].drop(origin)
        rest = away[away.index != 10.0] if panel == "needles" else away
        assert (rest["excess"] > 1e-7).all()
    assert softmax["risk"]["needles", 10.0] == pytest.approx(0.0, abs=1e-12)
    best = departures[departures["activation"] == BEST]
    every = departures[departures["activation"] != BEST].groupby(["panel", "value"])["risk"].min()
    for row in best.to_dict("records"):
        assert row["risk"] == every[row["panel"], row["value"]]
        assert row["risk"] > row["bayes_risk"] - 5.0 * row["bayes_error"] - 1e-9


def test_the_picture_of_the_departures(departures):
    figure = figure_module("departures").draw(departures)
    above, below = figure.axes[:4], figure.axes[4:]
    labels = [line.get_label() for line in above[1].lines]
    assert {"Bayes", "softmax", "sigmoid", "linear", BEST} <= set(labels)
    assert all(axes.get_yscale() == "log" for axes in below)
    curve = next(line for line in above[3].lines if line.get_label() == "softmax")
    bayes = next(line for line in above[3].lines if line.get_label() == "Bayes")
    last = np.asarray(curve.get_ydata())[-1] / np.asarray(bayes.get_ydata())[-1]
    assert last > 1e5  # a power against an exponential


def test_redundant_heads_and_the_worth_of_a_sink():
    heads = pd.read_csv(TABLES / "figure-heads-full.csv")
    wide = heads[heads["panel"] == "heads"].pivot(index="heads", columns="attention", values="risk")
    for name in ("softmax", "softmax with a sink"):
        assert wide[name][1] > wide[name][4] == wide[name][7]  # further heads gain nothing
    uniform = wide["softmax, one head uniform"]
    assert uniform[4] > wide["softmax"][4] > uniform[5]  # but the first redundant one may
    assert wide["bayes-softmax"][4] == pytest.approx(0.4058, abs=5e-5)
    part = heads[heads["panel"] == "signals"].set_index(["attention", "directions", "signal"])
    worth = part["risk"]["softmax"] - part["risk"]["softmax with a sink"]
    assert (worth > 0.0).all()
    assert figure_module("heads").draw(heads).legends


def test_softmax_on_the_task_of_marion_is_optimal_at_unit_variance_alone():
    table = pd.read_csv(TABLES / "figure-marion-full.csv")
    for _, part in table.groupby("signal"):
        wide = part.pivot(index="relevant_std", columns="predictor", values="risk")
        excess = wide["softmax"] - wide["keys"]
        near = np.abs(np.log(wide.index)) < 1e-9
        assert near.sum() == 1
        assert abs(excess[near].iloc[0]) < 1e-9
        assert (excess[~near] > 1e-4).all()


def test_labels_have_the_numbers_of_their_page():
    table = pd.read_csv(TABLES / "figure-labels-full.csv")
    rows = table[table["kind"].isin(["cross entropy", "least squares"])]
    assert rows["worth"].between(2.5, 5.0).all()  # three to five y
    assert rows["worth_error"].between(0.04, 0.3).all()
    wide = rows.pivot(index=["task", "alpha"], columns="kind", values=["risk", "risk_error"])
    gap = wide["risk"]["least squares"] - wide["risk"]["cross entropy"]
    assert gap["max", 4.0] == pytest.approx(0.413 - 0.379, abs=1e-3)
    assert gap["max", 16.0] == pytest.approx(0.3145 - 0.2928, abs=1e-4)
    both = np.hypot(*(wide["risk_error"][kind] for kind in ("least squares", "cross entropy")))
    assert (gap["max"][1.0:] > 4.0 * both["max"][1.0:]).all()
    assert gap["spiked"].abs().max() < 0.015
    marked = rows[rows["worth_status"] == "boundary"].groupby("task")["alpha"].unique()
    assert {task: sorted(alphas) for task, alphas in marked.items()} == {"max": [0.5, 1.0, 2.0]}
    best = table[(table["kind"] == "Bayes") & (table["task"] == "spiked")].set_index("alpha")
    ahead = best["labelled_overlap"] - best["overlap"]
    assert ahead[0.5] > 0.16
    assert (ahead[2.0:] < 1e-3).all()  # a location adds nothing to the optimal overlap


def test_universality_has_the_numbers_of_its_page():
    table = pd.read_csv(TABLES / "figure-universality-full.csv")
    fits = table[np.isinf(table["dim"])].set_index(["law", "theory"]).sort_index()
    independent = fits.loc[["gaussian", "rademacher", "laplace", "student(5)"]]["z"].abs()
    assert independent.size == 48
    assert independent.max() < bound(independent.size)
    correlated = fits.loc["gaussian+ar1(0.5)"]["z"].abs()
    own = correlated.drop(UNCORRELATED)
    assert own.size == 12
    assert own.max() < bound(48)
    assert correlated[UNCORRELATED].max() > 8.0
    (shared,) = [law for law in LAWS if "shared" in law]
    risks = fits.loc[shared][fits.loc[shared]["quantity"] == "test_risk"]
    assert (risks["z"].abs() > bound(48)).all()


def test_stages_of_heads_in_the_seeds_of_the_choice_and_in_held_out_ones():
    table = pd.read_csv(TABLES / "figure-specialisation-full.csv")
    once = table.drop_duplicates(["heads", "seed"]).set_index(["heads", "seed"])["reproduced"]
    assert (once[2].loc[:9].sum(), len(once[2].loc[:9])) == (9, 10)
    assert (once[2].loc[10:].sum(), len(once[2].loc[10:])) == (18, 20)
    assert (once[3].sum(), len(once[3])) == (6, 10)
    stages = table[table["part"] == "stage"]
    taken = stages[stages["stage"].str.startswith("direction")].sort_values("times")
    order = taken.groupby(["heads", "seed", "method"])[["stage", "head"]].agg(tuple)
    for (heads, seed), good in once.items():
        paths = order.loc[heads].loc[seed]
        same = len(paths) == 2 and bool((paths.loc["flow"] == paths.loc["descent"]).all())
        assert same == ((heads, seed) != (2, 25)), (heads, seed)
        assert same or not good
    wide = stages[stages["reproduced"]].pivot_table(
        index=["heads", "seed", "stage"], columns="method", values="times"
    )
    late = (wide["descent"] - wide["flow"]).abs().groupby("heads").max()
    assert late[2] == pytest.approx(1.6, abs=0.01)
    assert late[3] == pytest.approx(1.07, abs=0.01)
    figure = figure_module("specialisation").draw(table)
    marks = [line for line in figure.axes[2].lines if line.get_markerfacecolor() == "white"]
    assert marks  # the seeds that differ are drawn


def test_the_ends_of_training_on_the_sphere_are_those_of_the_page():
    ends = pd.read_csv(TABLES / "sphere-ends.csv")
    flows = ends[ends["method"] == "flow"].groupby("case")["minimum"].value_counts().to_dict()
    assert {case.split("$")[0] for case, _ in flows} == {"on M, ", "random, ", "descent, "}
    shares = {
        ("on M, $\\lambda=0.1$", "matched"): 30,
        ("random, $\\lambda=0.1$", "mismatched"): 16,
        ("random, $\\lambda=0.9$", "other"): 27,
        ("random, $\\lambda$ falls from 1", "matched"): 27,
        ("descent, $\\lambda$ falls from 2", "matched"): 10,
    }
    assert {key: flows[key] for key in shares} == shares
    descents = ends[ends["method"] == "descent"]
    assert len(descents) == 10
    assert (descents["kappa"].abs() > 0.99).all()

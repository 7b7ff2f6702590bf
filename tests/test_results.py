"""What all results share: they draw themselves, and sum up their numbers to their errors."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

import slrlab
from slrlab import (
    Estimate,
    MaxSLR,
    Result,
    SpikedSLR,
    Status,
    amp_state_evolution,
    bayes_optimal,
    bayes_risk,
    bayes_thresholds,
    compare,
    compare_amp,
    compare_descent,
    flow_ensemble,
    gradient_flow,
    local_minima,
    minimal_risk,
    minimum_branches,
    online_sgd,
    ridge_map,
    risk_and_gradient,
    risk_profile,
    run_amp,
    simulate_erm,
    tabulate,
)
from slrlab.experiments.comparison import compare_erm
from slrlab.experiments.dimensions import extrapolate_amp, extrapolate_erm

TASK = SpikedSLR(2.0, 2, noise=0.3)
SMALL = {"dim": 40, "seeds": 2}
TRAINED = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}


def ensemble():
    table = tabulate(SpikedSLR(2.0, 3), "linear", m=(-2.0, 3.0), spread=2.0)
    return flow_ensemble(table, *0.1 * np.random.default_rng(0).standard_normal((2, 3, 4)))


# each result with several numbers, and how many curves or points its picture has at least
MAKERS = {
    "RiskProfile": (lambda: risk_profile(TASK, "softmax", [0.0, 1.0, 2.0]), 2),
    "BayesThresholds": (lambda: bayes_thresholds(SpikedSLR(2.0, 3)), 2),
    "AmpStateEvolution": (lambda: amp_state_evolution(TASK, alpha=2.0, steps=3), 3),
    "AmpSimulation": (lambda: run_amp(TASK, alpha=2.0, steps=3, **SMALL), 3),
    "AmpComparison": (lambda: compare_amp(TASK, alpha=2.0, steps=3, **SMALL), 6),
    "Flow": (lambda: gradient_flow(TASK, "linear", time=1.0), 5),
    "FlowEnsemble": (ensemble, 3),
    "Trajectory": (lambda: online_sgd(TASK, "linear", dim=20, rate=0.1, steps=20), 5),
    "FlowComparison": (lambda: compare_descent(TASK, "linear", dim=20, time=0.1), 10),
    "LocalMinima": (lambda: local_minima(TASK, "linear", starts=4), 1),
    "ErmExtrapolation": (
        lambda: extrapolate_erm(TASK, "linear", **TRAINED, dims=[30, 60], seeds=2),
        2,
    ),
    "AmpExtrapolation": (
        lambda: extrapolate_amp(TASK, alpha=2.0, steps=3, dims=[30, 60], seeds=2),
        3,
    ),
    "MinimumBranch": (
        lambda: minimum_branches(SpikedSLR(2.0, 10), "erf", signals=(0.3, 0.5), anchors=2)[0],
        1,
    ),
    "ErmSimulation": (lambda: simulate_erm(TASK, "linear", **TRAINED, **SMALL), 2),
    "Comparison": (lambda: compare_erm(TASK, "linear", **TRAINED, **SMALL), 2),
    "ActivationComparison": (lambda: compare(TASK, ["softmax", "linear"]), 3),
    "RidgeMap": (
        lambda: ridge_map(
            TASK, "linear", alpha=4.0, ridge_k=[0.5, 1.0], ridge_v=[0.0, 1.0], tolerance=0.05
        ),
        1,
    ),
}
# one setting, or counts: nothing to draw
SINGLE = {"BayesOptimal", "BayesRisk", "ErmBranch", "ErmTheory", "LargeAlpha", "Minimum"}
SINGLE |= {"PopulationRisk", "RateFit", "RiskGradient", "SweepSummary"}


def kinds(base=Result):
    return {kind for sub in base.__subclasses__() for kind in {sub, *kinds(sub)}}


def test_every_kind_of_result_is_drawn_or_single():
    ours = {kind.__name__ for kind in kinds() if kind.__module__.startswith("slrlab.")}
    assert ours <= set(MAKERS) | SINGLE
    assert {kind.__name__ for kind in kinds() if hasattr(kind, "plot")} == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_results_with_several_numbers_draw_themselves(name):
    make, least = MAKERS[name]
    found = make()
    assert type(found).__name__ == name
    figure, given = plt.subplots()
    axes = found.plot(ax=given)
    assert axes is given
    drawn = [*axes.lines, *axes.collections, *axes.containers, *axes.patches]
    assert len(drawn) >= least
    assert axes.get_xlabel() or name in ("Comparison", "ActivationComparison")
    own = found.plot()
    assert own is not given
    figure.canvas.draw()
    plt.close("all")
    assert str(found.status) in found.summary() or "status" in found.summary(), found.summary()
    assert len(found.to_frame()) >= 1


def test_a_map_of_one_line_is_a_curve():
    found = ridge_map(TASK, "linear", alpha=4.0, ridge_k=[0.5, 2.0], ridge_v=[1.0], tolerance=0.05)
    axes = found.plot()
    assert axes.get_xscale() == "log"
    assert axes.lines[0].get_xdata().tolist() == [0.5, 2.0]
    plt.close("all")


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.08671, 0.00061), "0.08671 ± 0.00061"),
        (Estimate(0.5, 0.09), "0.500 ± 0.090"),
        (Estimate(1234.56, 12.0), "1235 ± 12"),
        (Estimate(0.3524232689, 1e-15), "0.3524232689"),
        (Estimate(1.6384e-45, 1.2e-48), "(1.6384 ± 0.0012)e-45"),
        (Estimate(2e-17, 1e-15), "(0.0 ± 1.0)e-15"),
        (Estimate(-3.0e7, 2e4), "(-3.0000 ± 0.0020)e7"),
        (Estimate(0.25, 0.0), "0.25"),
        (Estimate(0.25, math.nan), "0.25"),
        (Estimate(math.inf, 1.0), "inf"),
        (Estimate(0.0, 0.1), "0.00 ± 0.10"),
    ],
)
def test_numbers_are_rounded_to_their_errors(estimate, text):
    assert str(estimate) == text


def test_summaries_round_each_number_to_its_own_error():
    exact = dict(line.split(None, 1) for line in lines(minimal_risk(SpikedSLR(2.0, 3), "linear")))
    assert exact["risk"] == "0.4615384615"
    assert exact["excess"] == "0.1091151927"
    sampled = bayes_optimal(MaxSLR(math.inf, 2, noise=0.3), alpha=4.0)
    texts = dict(line.split(None, 1) for line in lines(sampled))
    assert texts["risk_amp"] == str(Estimate(sampled.risk_amp, sampled.error))
    assert " ± " in texts["risk_amp"]
    trained = simulate_erm(TASK, "linear", **TRAINED, **SMALL)
    texts = dict(line.split(None, 1) for line in lines(trained))
    assert texts["test_risk"] == str(trained.risk)
    assert texts["m_v"] == str(trained.estimate("m_v"))
    assert bayes_risk(TASK).summary().startswith("BayesRisk, converged\n")
    point = risk_and_gradient(TASK, "softmax", slrlab.FullOrderParameters(1, 0, 0, 1, 1, 0, 1))
    assert "  risk " in point.summary()


def lines(found):
    return found.summary().splitlines()[1:]


def test_excess_is_part_of_the_numbers():
    found = minimal_risk(SpikedSLR(2.0, 3), "linear")
    assert found.to_dict()["excess"] == found.risk - found.bayes_risk
    assert found.to_frame()["excess"].item() == found.excess
    assert found.status is Status.CONVERGED

"""What all results share: pictures, JSON keys, and summaries rounded to the errors."""

import json
import math
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import slrlab
from slrlab import (
    Estimate,
    LengthLaw,
    MarionSLR,
    MaxSLR,
    MultiHeadSLR,
    Result,
    SpikedSLR,
    Status,
    SweepSummary,
    amp_state_evolution,
    bayes_optimal,
    bayes_risk,
    bayes_thresholds,
    best_elementwise,
    bias_limit,
    capacity_test,
    compare,
    compare_amp,
    compare_descent,
    correlated_theory,
    departure,
    diagnose_scores,
    draw_dataset,
    erm_theory,
    excess_parts,
    fit_keys,
    flow_ensemble,
    gradient_flow,
    heads_bayes_risk,
    heads_moments,
    heads_risk,
    labels_worth,
    large_alpha,
    length_transfer,
    local_minima,
    minimal_risk,
    minimum_branches,
    online_sgd,
    require,
    ridge_map,
    risk_and_gradient,
    risk_profile,
    run_amp,
    simulate_erm,
    simulate_labels,
    specialisation,
    sphere_training,
    tabulate,
    universality,
    weight_statistics,
)
from slrlab.experiments.comparison.dimensions import extrapolate_amp, extrapolate_erm
from slrlab.experiments.comparison.law_gap import law_gap
from slrlab.experiments.comparison.training import compare_erm
from slrlab.experiments.retrieval.sgd import SgdRetrieval
from slrlab.retrieval import TrainedModel, train_capacity
from slrlab.theory.population.rates import RateFit

TASK = SpikedSLR(2.0, 2, noise=0.3)
SMALL = {"dim": 40, "seeds": 2}
TRAINED = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}


def ensemble():
    table = tabulate(SpikedSLR(2.0, 3), "linear", m=(-2.0, 3.0), std=2.0)
    return flow_ensemble(table, *0.1 * np.random.default_rng(0).standard_normal((2, 3, 4)))


@lru_cache
def diagnosis():
    return diagnose_scores(*TASK.sample_scores(np.random.default_rng(0), 64, 3), at=(5,))


TOKENS = {"signal": 4.0, "length": 3}
ROUGH = {"test_samples": 50, "tolerance": 0.05}
HEADS = MultiHeadSLR([4.0, 2.0], 2, 0.3)
CURVE = pd.DataFrame({"alpha": [1.0, 4.0], "overlap": [0.1, 0.4], "risk": [0.9, 0.7]}).assign(
    risk_error=0.01, status="sampled"
)


@lru_cache
def specialised():
    given = {"heads": 2, "dim": 8, "time": 0.2, "samples": 64, "record": 3}
    return specialisation(HEADS, "softmax", **given)


def labelled():
    data = draw_dataset(TASK, dim=5, samples=60)
    return fit_keys([data.sequence(i) for i in range(60)], data.locations, ridge=1.0)


# each result with several numbers, and how many curves or points its picture has at least
MAKERS = {
    "RiskProfile": (lambda: risk_profile(TASK, "softmax", [0.0, 1.0, 2.0]), 2),
    "WeightStatistics": (lambda: weight_statistics(TASK, "softmax", samples=200), 3),
    "BestMap": (lambda: best_elementwise(TASK), 2),
    "HeadDiagnosis": (lambda: diagnosis(), 2),
    "Requirement": (lambda: require(risk=0.4, length=[2, 3], activations="linear"), 2),
    "LengthTransfer": (lambda: length_transfer(TASK, "linear", fit=(2, 3), use=(2, 4)), 1),
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
    "CapacityTest": (lambda: capacity_test(["softmax", "elu+1"], [3, 4], max_steps=100), 4),
    "Departure": (lambda: departure("needles", [1, 2], activations=["linear"], **TOKENS), 3),
    "HeadsPath": (lambda: specialised().runs[0].flow, 4),
    "Haystack": (lambda: slrlab.draw_haystack(TASK, ["softmax"]), 2),
    "KeyFit": (labelled, 1),
    "LabelSimulation": (
        lambda: simulate_labels(TASK, **TRAINED, **SMALL, test_samples=50),
        1,
    ),
    "LabelsWorth": (
        lambda: labels_worth(TASK, alpha=(2.0,), dim=20, seeds=2, curve=CURVE),
        2,
    ),
    "Universality": (
        lambda: universality(
            *(TASK, "linear"), **TRAINED, laws=("rademacher",), dims=(20, 40), seeds=2, **ROUGH
        ),
        2,
    ),
    "RidgeMap": (
        lambda: ridge_map(
            TASK, "linear", alpha=4.0, ridge_k=[0.5, 1.0], ridge_v=[0.0, 1.0], tolerance=0.05
        ),
        1,
    ),
}
POINT = slrlab.FullOrderParameters(1, 0, 0, 1, 1, 0, 1)
# one setting, or counts: nothing to draw
SINGLE = {
    "SgdRetrieval": lambda: SgdRetrieval(
        Status.SAMPLED, risk=0.2, risk_error=0.01, goal=0.19, signal=4.0, signal_error=0.1
    ),
    "BayesOptimal": lambda: bayes_optimal(TASK, alpha=2.0),
    "BayesRisk": lambda: bayes_risk(TASK),
    "BiasLimit": lambda: bias_limit(TASK, "softplus-biased", [-4.0, -6.0]),
    "ErmBranch": lambda: erm_theory(TASK, "linear", **TRAINED, tolerance=0.05).branches[0],
    "CorrelatedTheory": lambda: correlated_theory(
        TASK, "linear", **TRAINED, spectrum=[0.5, 1.5], tolerance=0.05
    ),
    "HeadsBayesRisk": lambda: heads_bayes_risk(HEADS),
    "HeadsMoments": lambda: heads_moments(HEADS, "softmax", np.eye(2), samples=256),
    "HeadsRisk": lambda: heads_risk(HEADS, "linear"),
    "LawGap": lambda: law_gap(
        TASK, "linear", **TRAINED, token_law="uniform", dim=20, seeds=1, **ROUGH
    ),
    "Specialisation": lambda: specialised(),
    "SphereTraining": lambda: sphere_training(
        MarionSLR(2.0, 2), scale=0.3, dim=6, time=0.2, seeds=2, record=3
    ),
    "ErmTheory": lambda: erm_theory(TASK, "linear", **TRAINED, tolerance=0.05),
    "ExcessParts": lambda: excess_parts(TASK, "linear", samples=1024),
    "LengthPrediction": lambda: diagnosis().predictions[0],
    "Need": lambda: require(risk=0.4, length=2, activations="linear").needs[1],
    "CapacityRun": lambda: train_capacity("softmax", 3, max_steps=100),
    "LargeAlpha": lambda: large_alpha(TASK, "linear"),
    "Minimum": lambda: local_minima(TASK, "linear", starts=4).minima[0],
    "PopulationRisk": lambda: minimal_risk(TASK, "linear"),
    "RateFit": lambda: RateFit(Status.CONVERGED, "linear", LengthLaw.of(3), "C", 1.0, 1.0),
    "RiskGradient": lambda: risk_and_gradient(TASK, "softmax", POINT),
    "TransferPoint": lambda: length_transfer(TASK, "linear", fit=2, use=3).points[0],
    "SweepSummary": lambda: SweepSummary(Status.CONVERGED, 1, 1, 0, 0, 0.0, (), "sweep.db"),
    "TrainedModel": lambda: TrainedModel(
        *(Status.SAMPLED, 0.2, 0.9, 100, math.nan, (0.5, 0.9), np.zeros(3, np.float32))
    ),
}
WHERE = "task signal length noise"
SEVERAL = "signals length noise probabilities"
# the JSON contract: what `to_dict` holds
KEYS = {
    "RiskProfile": f"status m_k risk error m_v bayes_risk activation {WHERE}",
    "WeightStatistics": "status hit_rate mean_weight total entropy scale distance scaled_distance "
    "miscalibration bin_weight bin_posterior bin_posterior_error bin_tokens m_k R_k bias "
    f"samples errors activation {WHERE}",
    "Haystack": f"status scores values location label weights predictions {WHERE} seed",
    "BestMap": f"status scores values exact risk exact_risk error {WHERE}",
    "BiasLimit": f"status bias excess excess_error rate constant constant_error activation {WHERE}",
    "ExcessParts": "status excess excess_error angle shape_part shape_part_error size_part "
    "size_part_error length_part length_part_error error per_length per_sequence retuned "
    f"sum_variation m_k bias activation {WHERE}",
    "HeadDiagnosis": "status bayes_risk hit_rate predicted_hit_rate mean_weight risk "
    "predicted_risk excess temperature tuned_risk sink_temperature log_sink sink_risk context "
    f"bayes_context offset_share beyond errors sequences predictions activation {WHERE}",
    "Need": "status activation length signal alpha value error possible note",
    "Requirement": "status quantity target unknown needs",
    "LengthPrediction": "status length hit_rate risk bayes_risk",
    "LengthTransfer": "status points",
    "TransferPoint": "status rule fit use factor risk error refitted_risk refitted_error "
    "bayes_risk m_k m_v q_k q_v bias note task signal noise activation loss refitted_loss",
    "BayesThresholds": f"status alpha_it alpha_alg alpha_informed hard_phase error steps {WHERE}",
    "AmpStateEvolution": f"status iteration q_k q_v risk error alpha {WHERE}",
    "AmpSimulation": "status iteration q_k q_v norm_k norm_v variance_k variance_v risk errors "
    f"seconds alpha dim samples seeds damping precision runs {WHERE}",
    "SweepSummary": "status points computed failed failed_before seconds problems store",
    "AmpComparison": "status iteration q_k q_v risk q_k_error q_v_error risk_error q_k_se q_v_se "
    "risk_se q_k_p_value q_v_p_value risk_p_value family_p gap_q_k gap_q_v gap_risk theory_error "
    f"theory_freedom seconds alpha dim samples seeds {WHERE}",
    "Flow": "status times m_kk m_kv m_vk m_vv q_kk q_kv q_vv bias risk minimum destination "
    f"gradient_norm evaluations method rate k v activation {WHERE}",
    "FlowEnsemble": "status statuses k v risk times",
    "Trajectory": "status times steps m_kk m_kv m_vk m_vv q_kk q_kv q_vv bias loss loss_error "
    "method rate batch dim activation",
    "FlowComparison": "status flow runs gaps dim rate batch seconds worst",
    "LocalMinima": f"status minima starts activation {WHERE}",
    "ErmExtrapolation": "status dims limits limit_family_p comparisons",
    "AmpExtrapolation": "status dims limits limit_family_p comparisons",
    "MinimumBranch": "status signals risk m_kk m_kv bias ends at_infinity task length noise "
    "activation",
    "ErmSimulation": "status test_risk test_risk_error train_mse objective m_k m_v q_k q_v m_kv "
    "m_vk q_kv bias errors iterations seconds alpha dim samples seeds ridge_k ridge_v start "
    f"activation runs {WHERE}",
    "Comparison": "status gaps gap_errors freedom gap_intervals p_values family_p z worst "
    "order_risk order_risk_error theory simulation",
    "ActivationComparison": "status rows",
    "RidgeMap": "status points",
    "BayesOptimal": "status risk_it risk_amp q_k q_v q_k_it q_v_it free_entropy free_entropy_amp "
    f"hard error alpha steps {WHERE}",
    "BayesRisk": f"status risk nishimori_gap error {WHERE}",
    "ErmBranch": "status branch test_risk objective m_k m_v",
    "ErmTheory": "status test_risk test_risk_error test_risk_low test_risk_high train_mse "
    "objective m_k m_v q_k q_v V_k V_v bias ridge_k ridge_v replicon stable bistable_fraction "
    "trace_gap branch branches samples steps residual stiffness alpha activation errors "
    f"{WHERE}",
    "CorrelatedTheory": "status test_risk test_risk_error train_mse m_k m_v q_k q_v errors "
    "signal_factor replicon uncorrelated",
    "Departure": "status direction rows",
    "HeadsBayesRisk": "status risk nishimori_gap error",
    "HeadsMoments": "status risk error A B values",
    "HeadsPath": "status times keys values crossed bias risk risk_error method rate activation "
    f"{SEVERAL}",
    "HeadsRisk": "status risk error bayes_risk excess direction m_k m_v bias A B B_idle gain "
    f"activation {SEVERAL}",
    "KeyFit": "status k objective gradient_norm separation hit_rate gradient_norms objectives loss "
    "ridge",
    "LabelSimulation": "status test_risk test_risk_error key_overlap key_overlap_error m_k q_k m_v "
    f"q_v errors steps values loss dim samples seeds activation alpha ridge_k ridge_v {WHERE}",
    "LabelsWorth": f"status loss dim seeds rows curve {WHERE}",
    "LawGap": "status gap gap_error test_risk theory_risk token_law dim seeds activation alpha "
    f"ridge_k ridge_v {WHERE}",
    "Specialisation": "status reproduced seeds risk_descent common_descent learned_descent "
    f"risk_flow common_flow learned_flow gap heads dim rate activation {SEVERAL}",
    "SphereTraining": "status matched mismatched other kappa kappa_error nu nu_error theta "
    "theta_error eta eta_error rho rho_error risk risk_error oracle_risk dim scale decay",
    "Universality": f"status verdicts rows activation alpha ridge_k ridge_v {WHERE}",
    "LargeAlpha": "status population_risk rate rate_error rate_k rate_v",
    "Minimum": "status kind risk order bias curvatures gradient_norm starts",
    "PopulationRisk": "status risk bayes_risk m_k m_v A B error bias R_k R_v excess activation "
    f"{WHERE}",
    "RateFit": "status activation length quantity fitted predicted",
    "CapacityRun": "status feature_map pairs key_size dimension seed ended steps loss best_loss "
    "mean_loss mean_loss_error floor drift losses seconds",
    "CapacityTest": "status rows runs",
    "SgdRetrieval": "status risk risk_error goal signal signal_error",
    "TrainedModel": "status loss accuracy steps steps_to_99 checks vector",
    "RiskGradient": "status risk error gradient_k gradient_v bias_gradient gradient_error order "
    f"bias activation {WHERE}",
}


def kinds(base=Result):
    return {kind for sub in base.__subclasses__() for kind in {sub, *kinds(sub)}}


def test_every_kind_of_result_is_drawn_or_single():
    leaves = {kind for kind in kinds() if not kind.__subclasses__()}  # not what they share
    ours = {kind.__name__ for kind in leaves if kind.__module__.startswith("slrlab.")}
    assert ours <= set(MAKERS) | set(SINGLE)
    assert {kind.__name__ for kind in kinds() if hasattr(kind, "plot")} == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_results_with_several_numbers_draw_themselves(name):
    make, least = MAKERS[name]
    result = make()
    assert type(result).__name__ == name
    figure, given = plt.subplots()
    axes = result.plot(ax=given)
    assert axes is given
    drawn = [*axes.lines, *axes.collections, *axes.containers, *axes.patches]
    assert len(drawn) >= least
    assert bool(axes.get_xlabel()) == (name not in ("Comparison", "ActivationComparison"))
    own = result.plot()
    assert own is not given
    figure.canvas.draw()
    plt.close("all")
    assert str(result.status) in result.summary(), result.summary()
    assert len(result.to_frame()) >= 1
    assert sorted(result.to_dict()) == sorted(KEYS[name].split())


@pytest.mark.parametrize("name", SINGLE)
def test_results_of_one_number_have_the_keys_of_the_contract(name):
    result = SINGLE[name]()
    assert type(result).__name__ == name
    assert sorted(result.to_dict()) == sorted(KEYS[name].split())
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_map_of_one_line_is_a_curve():
    result = ridge_map(TASK, "linear", alpha=4.0, ridge_k=[0.5, 2.0], ridge_v=[1.0], tolerance=0.05)
    axes = result.plot()
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
    assert exact["risk"] == f"{6 / 13:.10f}"  # 2/(3 + 2·2/3), the closed form
    assert exact["excess"] == f"{6 / 13 - bayes_risk(SpikedSLR(2.0, 3)).risk:.10f}"
    sampled = bayes_optimal(MaxSLR(math.inf, 2, noise=0.3), alpha=4.0)
    texts = dict(line.split(None, 1) for line in lines(sampled))
    assert texts["risk_amp"] == str(Estimate(sampled.risk_amp, sampled.error))
    assert " ± " in texts["risk_amp"]
    trained = simulate_erm(TASK, "linear", **TRAINED, **SMALL)
    texts = dict(line.split(None, 1) for line in lines(trained))
    assert texts["test_risk"] == str(trained.risk)
    assert texts["m_v"] == str(trained.estimate("m_v"))
    assert bayes_risk(TASK).summary().startswith("BayesRisk, converged\n")
    point = risk_and_gradient(TASK, "softmax", POINT)
    assert "  risk " in point.summary()


def lines(result):
    return result.summary().splitlines()[1:]


def test_excess_is_part_of_the_numbers():
    result = minimal_risk(SpikedSLR(2.0, 3), "linear")
    assert result.to_dict()["excess"] == result.risk - result.bayes_risk
    assert result.to_frame()["excess"].item() == result.excess
    assert result.status is Status.CONVERGED

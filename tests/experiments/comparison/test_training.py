"""Theory against simulation: two implementations that share no formula."""

import json

import numpy as np
import pytest
from scipy import stats

from slrlab import MaxSLR, SpikedSLR, Status, compare_amp, erm_theory, risk_at, simulate_erm
from slrlab.experiments.comparison import training as comparison
from slrlab.experiments.comparison.dimensions import extrapolate_amp, extrapolate_erm
from slrlab.experiments.comparison.training import (
    QUANTITIES,
    STANDARD,
    compare_erm,
    order_risk,
    run_risk,
)
from slrlab.model.activations import make_activation


def test_the_standard_settings_cover_what_they_should():
    assert len(STANDARD) == 10
    assert {setting.task.name for setting in STANDARD} == {"spiked", "max"}
    assert {setting.activation_name for setting in STANDARD} == {"softmax", "linear", "softplus"}
    assert {str(setting.task.length) for setting in STANDARD} == {"2", "3", "4", "2,3,4"}
    assert {setting.task.noise for setting in STANDARD} == {0.0, 0.3}


@pytest.mark.slow
@pytest.mark.parametrize("setting", STANDARD[:2] + STANDARD[3:4] + STANDARD[7:8], ids=str)
def test_theory_and_simulation_agree(setting):
    # four settings: one in 250 runs of this test would fail by chance; the seeds are fixed
    theory = erm_theory(tolerance=1e-3, **setting.arguments)
    assert theory.stable
    result = compare_erm(dim=150, seeds=24, theory=theory, **setting.arguments)
    assert result.simulation.status is Status.SAMPLED
    assert set(result.gaps) == set(QUANTITIES)
    assert result.family_p > 1e-3, result.p_values


@pytest.mark.slow
def test_weak_ridges_part_theory_and_simulation():
    """Where the prox jumps, training ends between the two forms of the theory."""
    task, given = SpikedSLR(2.0, 3), {"alpha": 2.0, "ridge_k": 0.004, "ridge_v": 0.4}
    theory = erm_theory(task, "softmax", tolerance=5e-2, **given)
    result = compare_erm(task, "softmax", dim=200, seeds=8, theory=theory, **given)
    assert not result.theory.stable
    # whether the jumpy iteration also stalls depends on rounding
    assert result.status in (Status.UNSTABLE, Status.NOT_CONVERGED)
    assert result.gaps["order_risk"].value < -0.1
    assert theory.test_risk_low < result.order_risk.value < theory.test_risk_high


def test_the_order_parameters_give_the_risk_of_fresh_data():
    task = MaxSLR(2.0, "1,2,3", noise=0.3)
    given = {"alpha": 3.0, "dim": 400, "ridge_k": 0.5, "ridge_v": 0.5}
    result = simulate_erm(task, "erf", **given, seeds=2, test_samples=40_000)
    for run in result.runs:
        from_order = run_risk(result.setting, run)
        assert abs(run.test_risk - from_order) < 4.0 * run.test_risk_error + 5.0 / 400
    assert order_risk(result).value == pytest.approx(
        np.mean([run_risk(result.setting, run) for run in result.runs])
    )
    run = result.runs[0]
    here = make_activation("erf", bias=run.bias)
    assert run_risk(result.setting, run) == pytest.approx(
        risk_at(task, here, run.overlaps.on_manifold).risk, abs=1e-5
    )


GIVEN = {"alpha": 3.0, "ridge_k": 1.0, "ridge_v": 1.0, "seeds": 4}


def test_tables_and_json():
    result = compare_erm(SpikedSLR(2.0, 2), "linear", dim=60, **GIVEN)
    frame = result.to_frame()
    assert frame["quantity"].tolist() == list(QUANTITIES)
    assert np.allclose(frame["z"], [result.z[name] for name in QUANTITIES])
    assert np.allclose(frame["gap"], frame["simulation"] - frame["theory"])
    text = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert text["worst"] == max(abs(value) for value in text["z"].values())
    assert text["family_p"] == min(1.0, 6.0 * min(text["p_values"].values()))
    low, high = text["gap_intervals"]["m_k"]
    assert low < text["gaps"]["m_k"] < high
    # three degrees of freedom from four seeds, hardly more with those of the theory
    assert all(3.0 <= value < 4.0 for value in text["freedom"].values())


def test_a_gap_has_the_p_value_of_students_t():
    result = compare_erm(SpikedSLR(2.0, 2), "linear", dim=60, **GIVEN)
    runs = [run.overlaps.m_kk for run in result.simulation.runs]
    alone = stats.ttest_1samp(runs, result.theory.m_k).pvalue  # the theory's error is far smaller
    assert result.p_values["m_k"] == pytest.approx(alone, rel=0.05)
    assert abs(result.z["m_k"]) < abs(result.gaps["m_k"].value / result.gaps["m_k"].error)


def test_the_two_test_risks_are_named_apart():
    task = SpikedSLR(2.0, 2)
    without = compare_erm(task, "linear", dim=60, **GIVEN)
    assert "test_risk" not in without.gaps
    result = compare_erm(task, "linear", dim=60, test_samples=500, **GIVEN)
    fresh, exact = result.sides("test_risk")
    order, same = result.sides("order_risk")
    assert fresh.value == result.simulation.test_risk
    assert order == result.order_risk
    assert exact.value == same.value == result.theory.test_risk
    assert set(result.to_dict()["p_values"]) == {*QUANTITIES, "test_risk"}


def test_several_dimensions_and_their_limit():
    task = SpikedSLR(2.0, 2)
    calls = []
    result = extrapolate_erm(
        task, "linear", dims=(80, 40), report=lambda *call: calls.append(call[:2]), **GIVEN
    )
    assert [one.simulation.dim for one in result.comparisons] == [40, 80]
    first, last = result.comparisons
    assert first.theory is last.theory
    assert {run.seed for run in first.simulation.runs}.isdisjoint(
        {run.seed for run in last.simulation.runs}
    )
    for name, fit in result.limits.items():
        small, large = first.gaps[name].value, last.gaps[name].value
        assert fit.value.value == pytest.approx(2.0 * large - small)
        assert fit.drift.value == pytest.approx(80.0 * (small - large))
        assert fit.value.error > last.gaps[name].error
    shares = [done / total for done, total in calls]
    assert shares == sorted(shares)
    frame = result.to_frame()
    assert frame["dim"].tolist() == [40.0] * 6 + [80.0] * 6 + [np.inf] * 6
    text = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert text["dims"] == [40, 80]
    assert text["limits"]["m_k"]["p_value"] == result.p_values["m_k"]
    for wrong in ((40,), (40, 40)):
        with pytest.raises(ValueError, match=r"^dims must be at least two different dimensions"):
            extrapolate_erm(task, "linear", dims=wrong, **GIVEN)
    with pytest.raises(ValueError, match=r"^seeds must be a whole number >= 2, got 1"):
        extrapolate_erm(task, "linear", dims=(40, 80), **GIVEN | {"seeds": 1})


def test_message_passing_is_tested_at_each_iteration_and_in_the_limit():
    task, given = SpikedSLR(2.0, 2, noise=0.3), {"alpha": 2.0, "seeds": 4, "steps": 3}
    result = extrapolate_amp(task, dims=(40, 80), test_samples=200, **given)
    one = result.comparisons[-1]
    for name in ("q_k", "q_v", "risk"):
        p_values = getattr(one, f"{name}_p_value")
        assert len(p_values) == 3
        assert all(0.0 < value <= 1.0 for value in p_values)
        assert one.family_p[name] == min(1.0, 3.0 * min(p_values))
        assert all(gap.freedom == pytest.approx(3.0) for gap in one.gaps(name))
    fit = result.limits["q_v"][2]
    small, large = (one.q_v[2] - one.q_v_se[2] for one in result.comparisons)
    assert fit.value.value == pytest.approx(2.0 * large - small)
    text = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert len(text["limits"]["risk"]) == 3
    sampled = compare_amp(MaxSLR(2.0, 2, noise=0.3), dim=40, test_samples=0, **given)
    assert sampled.theory_freedom == 3.0
    assert np.isnan(sampled.family_p["risk"])


def test_the_theory_has_the_ratio_of_the_data():
    given = {"alpha": 0.25, "ridge_k": 1.0, "ridge_v": 1.0, "dim": 10, "seeds": 2}
    result = compare_erm(SpikedSLR(2.0, 2), "linear", **given)
    assert result.theory.setting.alpha == result.simulation.setting.alpha == 0.2


def test_bad_input_is_refused_before_the_theory_is_solved(monkeypatch):
    monkeypatch.setattr(comparison, "erm_theory", None)
    with pytest.raises(ValueError, match=r"^start must be one of informed, random, got warm"):
        compare_erm(
            SpikedSLR(2.0, 2), "linear", alpha=1, ridge_k=1, ridge_v=1, dim=10, start="warm"
        )

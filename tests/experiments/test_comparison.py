"""Theory against simulation: two implementations that share the model and nothing else."""

import json

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, Status, erm_theory, risk_at, simulate_erm
from slrlab.experiments import comparison
from slrlab.experiments.comparison import (
    QUANTITIES,
    STANDARD,
    compare_erm,
    order_risk,
    run_risk,
)
from slrlab.model.activations import make_activation


def test_the_standard_settings_cover_what_they_should():
    assert len(STANDARD) == 10
    assert {setting.task for setting in STANDARD} == {"spiked", "max"}
    assert {setting.activation for setting in STANDARD} == {"softmax", "linear", "softplus"}
    assert {setting.length for setting in STANDARD} >= {2, 3, 4}
    assert {setting.noise for setting in STANDARD} == {0.0, 0.3}


@pytest.mark.parametrize("setting", STANDARD[:2] + STANDARD[3:4] + STANDARD[7:8], ids=str)
def test_theory_and_simulation_agree(setting):
    # 24 seeds: a z-score beyond 3.5 happens once in 500 (Student's t), in 24 comparisons once in 20
    task = setting.make_task()
    theory = erm_theory(task, setting.activation, tolerance=1e-3, **setting.training)
    assert theory.stable
    found = compare_erm(
        task, setting.activation, dim=150, seeds=24, theory=theory, **setting.training
    )
    assert found.simulation.status is Status.SAMPLED
    assert set(found.z) == set(QUANTITIES)
    assert found.worst < 3.5, found.z


def test_weak_ridges_part_theory_and_simulation():
    """Beyond the stable side the trained risk lies well above the replica-symmetric one."""
    task, given = SpikedSLR(2.0, 3), {"alpha": 2.0, "ridge_k": 0.004, "ridge_v": 0.4}
    theory = erm_theory(task, "softmax", tolerance=1e-2, **given)
    found = compare_erm(task, "softmax", dim=200, seeds=8, theory=theory, **given)
    assert not found.theory.stable
    assert found.status is Status.UNSTABLE
    assert found.z["test_risk"] > 4.0


def test_the_order_parameters_give_the_risk_of_fresh_data():
    task = MaxSLR(2.0, "1,2,3", noise=0.3)
    given = {"alpha": 3.0, "dim": 400, "ridge_k": 0.5, "ridge_v": 0.5}
    found = simulate_erm(task, "erf", **given, seeds=2, test_samples=40_000)
    for run in found.runs:
        from_order = run_risk(task, make_activation("erf"), run)
        assert abs(run.test_risk - from_order) < 4.0 * run.test_risk_error + 5.0 / 400
    assert order_risk(task, "erf", found).value == pytest.approx(
        np.mean([run_risk(task, make_activation("erf"), run) for run in found.runs])
    )
    run = found.runs[0]
    here = make_activation("erf", bias=run.bias)
    assert run_risk(task, make_activation("erf"), run) == pytest.approx(
        risk_at(task, here, run.overlaps.on_manifold).risk, abs=1e-5
    )


def test_tables_and_json():
    found = compare_erm(
        SpikedSLR(2.0, 2), "linear", alpha=3.0, ridge_k=1.0, ridge_v=1.0, dim=60, seeds=4
    )
    frame = found.to_frame()
    assert frame["quantity"].tolist() == list(QUANTITIES)
    assert np.allclose(frame["z"], [found.z[name] for name in QUANTITIES])
    text = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert text["worst"] == max(abs(value) for value in text["z"].values())


def test_the_theory_has_the_ratio_of_the_data():
    given = {"alpha": 0.25, "ridge_k": 1.0, "ridge_v": 1.0, "dim": 10, "seeds": 2}
    found = compare_erm(SpikedSLR(2.0, 2), "linear", **given)
    assert found.theory.alpha == found.simulation.alpha == 0.2


def test_bad_input_is_refused_before_the_theory_is_solved(monkeypatch):
    monkeypatch.setattr(comparison, "erm_theory", None)
    with pytest.raises(ValueError, match=r"^init must be one of informed, random, got warm"):
        compare_erm(SpikedSLR(2.0, 2), "linear", alpha=1, ridge_k=1, ridge_v=1, dim=10, init="warm")

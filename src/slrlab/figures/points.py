"""Single points of figures, as rows of their tables: minimal risks, and simulated training."""

from __future__ import annotations

from typing import Any

from slrlab.experiments.comparison import Setting, order_risk
from slrlab.model.tasks import make_task
from slrlab.simulation.erm import simulate_erm
from slrlab.theory.population import minimal_risk

_KEPT = ("risk", "bayes_risk", "m_k", "m_v", "bias", "error", "status")
_TRAINED = ("m_k", "m_v", "q_k", "q_v", "train_mse", "iterations")

Simulated = tuple[Setting, int, int, str]
"""Setting, dimensions, seeds and start of a simulated training."""


def minimal_risk_row(setting: tuple[str, float, str | int, str]) -> dict[str, Any]:
    """Return the row for ``(task, signal, length, activation)``."""
    name, signal, length, activation = setting
    found = minimal_risk(make_task(name, signal=signal, length=length), activation).to_dict()
    row = {"task": name, "signal": signal, "length": length, "activation": activation}
    return row | {key: found[key] for key in _KEPT}


def simulated_row(point: Simulated) -> dict[str, Any]:
    """Return simulated test risk (from the trained order parameters) and overlaps, with errors."""
    setting, dim, seeds, init = point
    task = setting.make_task()
    found = simulate_erm(
        task,
        setting.activation,
        **setting.training,  # type: ignore[arg-type]  # numbers by their names
        dim=dim,
        seeds=seeds,
        init=init,
        test_samples=0,
        max_steps=1000,
    )
    risk = order_risk(task, setting.activation, found)
    row = {"simulated_risk": risk.value, "simulated_error": risk.error}
    row |= {f"simulated_{name}": getattr(found, name) for name in _TRAINED}
    return row | {"dim": dim, "seeds": seeds, "simulated_status": str(found.status)}

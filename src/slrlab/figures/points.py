"""One point of a figure of minimal risks, as a row of its table."""

from __future__ import annotations

from typing import Any

from slrlab.model.tasks import make_task
from slrlab.theory.population import minimal_risk

_KEPT = ("risk", "bayes_risk", "m_k", "m_v", "bias", "error", "status")


def minimal_risk_row(setting: tuple[str, float, str | int, str]) -> dict[str, Any]:
    """Return the row for ``(task, signal, length, activation)``."""
    name, signal, length, activation = setting
    found = minimal_risk(make_task(name, signal=signal, length=length), activation).to_dict()
    row = {"task": name, "signal": signal, "length": length, "activation": activation}
    return row | {key: found[key] for key in _KEPT}

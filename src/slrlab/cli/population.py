"""The command `population`: risk with infinite data."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, waiting
from slrlab.cli.options import FINITE, NOT_NEGATIVE, WEIGHTS, option
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import Task
from slrlab.theory.population.minimal import best_value, minimal_risk, risk_at
from slrlab.theory.population.weight_statistics import weight_statistics

_RESIDUAL = "Residual norm of {}; needs --m-k."


@command()
def population(
    *,
    task: Task,
    activation: Activation,
    m_k: Annotated[float | None, option("Key overlap; default: the best.", FINITE, "m")] = None,
    m_v: Annotated[float | None, option("Value overlap; needs --m-k.", FINITE, "m")] = None,
    R_k: Annotated[float | None, option(_RESIDUAL.format("k"), NOT_NEGATIVE, "R", "--R-k")] = None,
    R_v: Annotated[float | None, option(_RESIDUAL.format("v"), NOT_NEGATIVE, "R", "--R-v")] = None,
    weights: Annotated[bool, WEIGHTS] = False,
    output: Output,
) -> bool:
    """Risk with infinite data: the best one, or the one at given order parameters.

    Example: slrlab population --task max --signal inf --length 1,2,3 --activation erf

    Example: slrlab population --signal 9 --length 10 --activation sparsemax --weights
    """
    if m_k is None and (m_v, R_k, R_v) != (None, None, None):
        accepted = "a finite number if --m-v, --R-k or --R-v is given"
        raise ValueError(f"m_k must be {accepted}, got nothing")
    with waiting(f"{activation.name} on {task.name}-SLR"):
        if m_k is None:
            result = minimal_risk(task, activation)
        else:
            order = OrderParameters(m_k, 0.0, R_k or 0.0, R_v or 0.0)
            best = best_value(task, activation, order) if m_v is None else m_v
            result = risk_at(task, activation, replace(order, m_v=best))
        statistics = weight_statistics(task, activation, result) if weights else None
    return output.result("Population risk", result, weights=statistics)

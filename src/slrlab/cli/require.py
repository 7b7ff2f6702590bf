"""The command `require`: which signal, or how many samples, a demand needs."""

from __future__ import annotations

import math
from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import print_problems, progress
from slrlab.cli.options import (
    ACTIVATION,
    ANY_ALPHA,
    LENGTH,
    NOISE,
    POSITIVE,
    RISK_ERROR,
    SIGNAL,
    TASK,
    default,
    number,
    option,
)
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.experiments.requirements.require import Requirement
from slrlab.experiments.requirements.require import require as require_theory

_RATE = number("a number between 0 and 1")


@command(require_theory, length=[3], activation=list(default(require_theory, "activations")))
def require(
    *,
    risk: Annotated[float | None, option("Risk of at most this.", POSITIVE, "E")] = None,
    hit_rate: Annotated[float | None, option("Hit rate of at least this.", _RATE, "p")] = None,
    length: Annotated[list[Any], LENGTH],
    task: Annotated[str, TASK] = "spiked",
    signal: Annotated[list[float] | None, SIGNAL] = None,
    alpha: Annotated[list[float] | None, ANY_ALPHA] = None,
    noise: Annotated[float, NOISE],
    activation: Annotated[list[str], ACTIVATION],
    tolerance: Annotated[float, RISK_ERROR],
    output: TableOutput,
) -> bool:
    """Signal or samples that a demand on the risk or the hit rate needs, and who can meet it.

    Without --signal the least signal is computed, with infinite data or for --alpha samples per
    dimension; with --signal the least alpha. Repeat --length, --signal, --alpha or --activation.

    Example: slrlab require --risk 0.1 --length 10000

    Example: slrlab require --risk 0.5 --length 3 --signal 5 --activation softmax
    """
    trained = bool(signal) or any(map(math.isfinite, alpha or []))
    with progress("requirement") as report:
        result = require_theory(
            length=length,
            risk=risk,
            hit_rate=hit_rate,
            task=task,
            noise=noise,
            signal=signal or None,
            alpha=alpha or None,
            activations=activation,
            tolerance=tolerance,
            workers=None if trained else 1,
            report=report,
        )
    output.table(result)
    if not result.possible:
        print_problems([_closest(result)])
    return result.possible


def _closest(result: Requirement) -> str:
    """Return which activation comes closest to a demand that none meets, and how close."""
    needs = [need for need in result.needs if need.activation != BAYES_NAME] or result.needs
    known = [need for need in needs if not math.isnan(need.value)]
    if not known:
        return f"no answer: {needs[0].activation} {needs[0].note}"
    sign = 1.0 if result.quantity == "risk" else -1.0
    best = min(known, key=lambda need: sign * need.value)
    reason = best.note.removeprefix("impossible: ")
    return f"none of these activations can; closest is {best.activation}: {reason}"

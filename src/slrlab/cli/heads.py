"""The command `heads`: several heads on several directions, with infinite data."""

from __future__ import annotations

from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, waiting
from slrlab.cli.options import HeadsAttention, option, whole
from slrlab.model.heads import MultiHeadSLR
from slrlab.theory.heads.aligned import heads_risk

_HEADS = "Number of heads; default: one a direction."


@command()
def heads(
    *,
    task: MultiHeadSLR,
    attention: HeadsAttention,
    number: Annotated[int | None, option(_HEADS, whole(1), "H", "--heads")] = None,
    output: Output,
) -> bool:
    """Least risk of several heads, each aligned with one of several directions; infinite data.

    A head whose direction is absent adds noise; a sink lowers its weights. bayes-softmax is
    normalised over tokens and heads together and has the least risk of any predictor.

    Example: slrlab heads --signals 6 --directions 4 --activation softmax-1 --bias optimal

    Example: slrlab heads --signals 12,6,3 --probabilities 0.5,0.3,0.2 --activation bayes-softmax
    """
    with waiting(f"heads on {task.directions} directions"):
        result = heads_risk(task, attention.made, heads=number)
    return output.result("Several heads", result)

"""Several equal directions as a task and a number, for sweeps."""

from __future__ import annotations

from slrlab import _checks
from slrlab.model.activations import Activation
from slrlab.model.heads import MultiHeadSLR
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.theory.heads.aligned import HeadsRisk, heads_risk


def equal_heads(
    task: Task, activation: Activation | str, *, directions: int, heads: int | None = None
) -> HeadsRisk:
    """Return `heads_risk` on several directions, each with the signal of a spiked-SLR task.

    Raises
    ------
    TypeError
        If the task is not spiked-SLR.
    ValueError
        As `heads_risk`.

    Examples
    --------
    >>> print(f"{equal_heads(SpikedSLR(6.0, 5), 'softmax', directions=4).risk:.4f}")
    0.7214
    """
    if not isinstance(task, SpikedSLR):
        _checks.fail("task", "spiked for several heads", getattr(task, "name", task), TypeError)
    several = MultiHeadSLR(task.signal, task.length, task.noise, directions=directions)
    return heads_risk(several, activation, heads=heads)

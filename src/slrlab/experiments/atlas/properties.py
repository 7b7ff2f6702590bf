"""What each activation lacks: shape, size and length parts of the excess, for the whole atlas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slrlab._types import Report
from slrlab.experiments.atlas.activations import Kind
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.parts import PARTS, ExcessParts, excess_parts

if TYPE_CHECKING:
    import pandas as pd

STANDARD = SpikedSLR(9.0, 10)
_SAMPLES, _FEW = 65536, 8192  # sequences, for a table and for a sentence
_SAME = 1e-6  # excess below which an activation is the best predictor for all purposes
_DOUBT = 0.01  # error of a loss from which it is said
_REASONS = (  # what a factor for each length brings, then for each sequence, then what is left
    "one factor does not fit all lengths",
    "one factor does not fit all sequences",
    "the log of its weights is not linear in the score over the scores that matter",
)


def properties(
    task: Task | Sequence[Task] = STANDARD,
    activations: Sequence[Kind] | None = None,
    *,
    samples: int = _SAMPLES,
    seed: int = 0,
    workers: int | None = 1,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return what the excess of each activation consists of, least excess first.

    The columns are those of `slrlab.ExcessParts` with the loss, the family, and the share of each
    part in the excess (nan without excess).

    Parameters
    ----------
    task
        A task, or several.
    activations
        Names, expressions or activations; None for all that are registered.
    samples, seed
        Sequences of the sample of the parts, and its seed.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    DataFrame
        A row for each activation.

    Raises
    ------
    ValueError
        If an activation is not known and cannot be read, or a task cannot be sampled.

    Examples
    --------
    >>> from slrlab import SpikedSLR, properties
    >>> table = properties(SpikedSLR(signal=9.0, length=10), ["linear", "l2-softmax"])
    >>> table[["activation", "excess", "shape_share", "size_share"]].round(2).values.tolist()
    [['l2-softmax', 0.02, 0.0, 1.0], ['linear', 0.35, 0.94, 0.06]]
    """
    import pandas as pd

    tasks = [task] if isinstance(task, Task) else list(task)
    kinds = list(ACTIVATIONS) if activations is None else list(activations)
    for kind in kinds:  # refused before any work
        make_activation(kind)
    points = [(one, kind, samples, seed) for one in tasks for kind in kinds]
    rows = parallel_map(_row, points, label="properties", report=report, workers=workers)
    frames = [
        pd.DataFrame(rows[start : start + len(kinds)]).sort_values("excess", kind="stable")
        for start in range(0, len(rows), len(kinds))
    ]
    return pd.concat(frames, ignore_index=True)


def _row(point: tuple[Task, Kind, int, int]) -> dict[str, Any]:
    task, kind, samples, seed = point
    parts = excess_parts(task, kind, samples=samples, seed=seed)
    row = parts.to_dict() | {name: getattr(parts, name) for name in ("m_k", "bias")}
    shares = {f"{name}_share": parts.share(name) for name in PARTS}
    return row | {"family": make_activation(kind).family, "loss": _loss(parts)} | shares


def _loss(parts: ExcessParts) -> float:
    """Return the part of the attainable gain that is missed, ``sin²`` of the angle."""
    return math.sin(math.radians(parts.angle)) ** 2


def lacks(activation: Kind, task: Task = STANDARD) -> str:
    """Return in a sentence what an activation lacks on a task, with infinite data.

    The excess is divided by what would remove it: a factor for each length, a factor for each
    sequence (a normalisation), and weights whose log is linear in the score; keys and bias are the
    best ones in each case.

    Parameters
    ----------
    activation
        A name, an expression in ``x`` or an activation.
    task
        The task; by default spiked-SLR with signal 9 and length 10.

    Returns
    -------
    str
        The sentence.

    Raises
    ------
    ValueError
        If the activation is not known and cannot be read, or the task cannot be sampled.

    Examples
    --------
    >>> from slrlab import lacks
    >>> print(lacks("softmax"))
    Lacks nothing on spiked (signal 9, length 10): its weights are the posterior up to a factor.
    """
    parts = excess_parts(task, activation, samples=_FEW)
    where = Setting(task)
    if parts.excess < _SAME:
        return f"Lacks nothing on {where}: its weights are the posterior up to a factor."
    gain = task.trivial_risk - bayes_risk(task).risk
    doubt = parts.excess_error / gain
    loss = f"{_loss(parts):.2g}" + (f" ± {doubt:.1g} ({parts.status})" if doubt > _DOUBT else "")
    loses = f"Loses {loss} of the attainable gain on {where}"
    if not math.isfinite(parts.parts):
        return f"{loses}; its weights overflow on a sample, so why is not known."
    freed = (parts.parts, parts.per_length, parts.per_sequence, 0.0)
    gains = [before - after for before, after in itertools.pairwise(freed)]
    reasons = [
        f"{100.0 * gain / parts.parts:.0f} % because {reason}"
        for gain, reason in sorted(zip(gains, _REASONS, strict=True), reverse=True)
        if gain >= 0.005 * parts.parts
    ]
    return f"{loses}: {', '.join(reasons)}."

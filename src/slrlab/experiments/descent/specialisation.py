r"""How heads specialise: stages of training, in descent on fresh sequences and in its flow.

From a small start all heads first align with the common mean of the directions; then one direction
after the other is taken by a head. `stages_of` finds both in a path.
"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slrlab import _checks
from slrlab._result import Result, Status, plain
from slrlab._types import DataFrame, Report
from slrlab.model.activations import Activation
from slrlab.model.heads import MultiHeadSLR
from slrlab.model.heads_path import HeadsOverlaps, HeadsPath
from slrlab.simulation.heads.sgd import check_heads_memory, draw_teachers, heads_sgd, heads_start
from slrlab.theory.heads.flow import heads_flow

SHARE = 0.95  # share of the squared value overlaps of a head that its direction must have
COMMON = 0.95  # cosine with the mean of the directions up to which a head counts as unspecialised
_SHORT = 0.1  # length of the value overlaps below which a head has learned nothing


class Stage(NamedTuple):
    """A direction, the head that takes it first for good, and when."""

    direction: int
    head: int
    time: float


@dataclass(frozen=True)
class Stages:
    """Stages of a path.

    Attributes
    ----------
    common
        First and last time at which all heads point to the mean of the directions; None if never.
    learned
        The directions that are learned, in the order of time.
    redundant
        Heads that end without a direction that they were the first to take.
    """

    common: tuple[float, float] | None
    learned: tuple[Stage, ...]
    redundant: int

    @property
    def order(self) -> tuple[int, ...]:
        """The directions in the order in which they are learned."""
        return tuple(stage.direction for stage in self.learned)

    def __str__(self) -> str:
        parts = [] if self.common is None else [f"mean {self.common[0]:.3g}–{self.common[1]:.3g}"]
        parts += [f"direction {j + 1} by head {h + 1} at {t:.3g}" for j, h, t in self.learned]
        return ", ".join(parts) or "none"


def stages_of(path: HeadsPath) -> Stages:
    """Return the stages of training.

    A head has a direction if that has at least `SHARE` of its squared value overlaps; it is
    unspecialised if they have a cosine of at least `COMMON` with the probabilities.

    Parameters
    ----------
    path
        Overlaps of the heads along a training.

    Returns
    -------
    Stages
        The common stage, the directions in the order of learning, and redundant heads.

    Examples
    --------
    >>> import numpy as np
    >>> from slrlab import HeadsOverlaps, MultiHeadSLR, heads_flow, stages_of
    >>> start = HeadsOverlaps(0.3 * np.eye(4), 0.1 * np.eye(4))
    >>> task = MultiHeadSLR(4.0, 3, directions=2)
    >>> stages = stages_of(heads_flow(task, "softmax", start=start, time=5.0, samples=512))
    >>> stages.order
    (0, 1)
    """
    sizes = np.linalg.norm(path.values, axis=2)
    awake = np.where(sizes > _SHORT, sizes, np.inf)[..., None]
    mean = np.array(path.task.probabilities)
    cosines = (path.values / awake) @ (mean / np.linalg.norm(mean))
    has = (path.values / awake) ** 2 > SHARE  # (T, H, K)
    # from which time on a head keeps a direction: all later times have it
    kept = np.flip(np.logical_and.accumulate(np.flip(has, axis=0), axis=0), axis=0)
    learned = []
    for direction in range(path.task.directions):
        owners = np.flatnonzero(kept[-1, :, direction])
        if owners.size:
            first = [int(np.argmax(kept[:, head, direction])) for head in owners]
            index = int(np.argmin(first))
            learned.append(Stage(direction, int(owners[index]), float(path.times[first[index]])))
    learned.sort(key=lambda stage: stage.time)
    together = np.flatnonzero((cosines > COMMON).all(axis=1))
    common = None
    if together.size:
        common = float(path.times[together[0]]), float(path.times[together[-1]])
    return Stages(common, tuple(learned), path.heads - len(learned))


@dataclass(frozen=True)
class SpecialisationRun:
    """Descent and flow from one start, with their stages."""

    seed: int
    descent: HeadsPath
    flow: HeadsPath
    stages: Stages
    predicted: Stages

    @property
    def reproduced(self) -> bool:
        """Whether both have a common stage, and the same heads take directions in one order."""
        both = self.stages.common is not None and self.predicted.common is not None
        sides = [[stage[:2] for stage in one.learned] for one in (self.stages, self.predicted)]
        return both and sides[0] == sides[1] != []

    @property
    def gap(self) -> float:
        """Largest difference of a value overlap over the whole path."""
        count = min(len(self.descent.times), len(self.flow.times))
        return float(np.abs(self.descent.values[:count] - self.flow.values[:count]).max())


@dataclass(frozen=True)
class Specialisation(Result):
    """Training of several heads from several starts, in descent and in its flow.

    Attributes
    ----------
    runs
        One for each seed.
    heads, dim, rate
        Number of heads, ``D`` and ``η``.
    """

    runs: tuple[SpecialisationRun, ...]
    heads: int
    dim: int
    rate: float
    activation: str
    task: MultiHeadSLR
    seconds: float

    @property
    def reproduced(self) -> int:
        """Number of seeds whose descent has the stages of the flow."""
        return sum(run.reproduced for run in self.runs)

    def to_frame(self) -> DataFrame:
        """Return one row for each seed, method, time, head and direction."""
        import pandas as pd

        tables = [
            path.to_frame().assign(seed=run.seed, method=method, reproduced=run.reproduced)
            for run in self.runs
            for method, path in (("descent", run.descent), ("flow", run.flow))
        ]
        return pd.concat(tables, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return risks and stages of each seed as JSON-ready values."""
        shown: dict[str, Any] = {"status": self.status, "reproduced": self.reproduced}
        shown |= {"seeds": [run.seed for run in self.runs]}
        for name, side in (("descent", "stages"), ("flow", "predicted")):
            seen = [getattr(run, side) for run in self.runs]
            shown[f"risk_{name}"] = [float(getattr(run, name).risk[-1]) for run in self.runs]
            shown[f"common_{name}"] = [stages.common for stages in seen]
            shown[f"learned_{name}"] = [[tuple(s) for s in stages.learned] for stages in seen]
        shown |= {"gap": [run.gap for run in self.runs], "heads": self.heads, "dim": self.dim}
        shown |= {"rate": self.rate, "activation": self.activation}
        return {name: plain(value) for name, value in shown.items()} | self.task.to_dict()

    def __str__(self) -> str:
        return (
            f"{self.heads} heads of {self.activation} on {self.task.directions} directions, "
            f"D {self.dim}: stages of the flow in {self.reproduced} of {len(self.runs)} runs, "
            f"{self.status}"
        )


def specialisation(
    task: MultiHeadSLR,
    activation: Activation | str,
    *,
    heads: int,
    dim: int = 400,
    rate: float = 0.1,
    time: float = 60.0,
    size: float = 0.1,
    overlap: float = 0.0,
    record: int = 61,
    samples: int = 1 << 13,
    seeds: int = 1,
    seed: int = 0,
    report: Report | None = None,
) -> Specialisation:
    r"""Train several heads in ``R^D``, and follow the flow of their overlaps from the same starts.

    Parameters
    ----------
    task, activation
        Task, and attention of each head or ``"bayes-softmax"``.
    heads, dim, rate, time, size, overlap, record
        As for `slrlab.heads_sgd`.
    samples
        Sequences of the sample behind the flow, as for `slrlab.heads_flow`.
    seeds, seed
        Number of runs, and the seed of the first.
    report
        Called as ``report(done, total, label)``.

    Returns
    -------
    Specialisation
        A run for each seed: both paths and their stages.

    Examples
    --------
    >>> from slrlab import MultiHeadSLR, specialisation
    >>> task = MultiHeadSLR(9.0, 3, directions=2)
    >>> done = specialisation(task, "bayes-softmax", heads=2, dim=50, time=1.0, samples=256)
    >>> len(done.runs), done.runs[0].gap < 0.2
    (1, True)
    """
    began = clock.perf_counter()
    heads, dim = _checks.integer(heads, "heads"), _checks.integer(dim, "dim", low=4)
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    rate, size = _checks.positive(rate, "rate"), _checks.positive(size, "size")
    overlap = _checks.non_negative(overlap, "overlap")
    check_heads_memory(task, dim, heads)
    runs = []
    for number in range(seed, seed + seeds):
        if report is not None:
            report(number - seed, seeds, "training heads")
        teachers = draw_teachers(task, dim, number)
        start = heads_start(teachers, heads, size=size, overlap=overlap, seed=number)
        training: dict[str, Any] = {"heads": heads, "dim": dim, "rate": rate, "time": time}
        training |= {"start": start, "record": record, "seed": number}
        descent = heads_sgd(task, activation, **training)
        overlaps = HeadsOverlaps.of(start, teachers)
        end = max(float(descent.times[-1]), 1e-9)
        path: dict[str, Any] = {"rate": rate, "time": end, "times": descent.times}
        flow = heads_flow(task, activation, start=overlaps, samples=samples, **path)
        stages = stages_of(descent), stages_of(flow)
        runs.append(SpecialisationRun(number, descent, flow, *stages))
    paths = [path for run in runs for path in (run.descent, run.flow)]
    return Specialisation(
        status=Status.worst(path.status for path in paths),
        runs=tuple(runs),
        heads=heads,
        dim=dim,
        rate=rate,
        activation=runs[0].descent.activation,
        task=task,
        seconds=clock.perf_counter() - began,
    )

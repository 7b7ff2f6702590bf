r"""Descent in ``R^D`` beside the flow of its order parameters, at the same times.

The flow is that of the population risk, so descent must meet fresh sequences all the way: on a
fixed set of ``N`` it would go to the minimum of their mean loss, which is another point at any
finite ``N/D``. Time is that of `slrlab.simulation.descent.full_batch`.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Result, Status, plain
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.descent.stochastic import online_sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.simulation.training.objective import Weights
from slrlab.theory.landscape.flow import gradient_flow
from slrlab.theory.landscape.path import OVERLAPS, Flow, start_vectors
from slrlab.theory.landscape.risk import Landscape, Point, start_bias
from slrlab.theory.landscape.stochastic import sgd_flow
from slrlab.theory.population.minimal import checked

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_STILL = 1e-9  # gradient below which a flow may stop before the descent beside it
_DIRECTIONS = 7  # key of the random numbers behind the free directions


@dataclass(frozen=True)
class FlowComparison(Result):
    """A flow and simulated descents from the same start, at the same times.

    Attributes
    ----------
    status
        ``sampled``: both sides went to the end. ``diverged`` or ``failed``: one did not, and gaps
        are those up to there.
    flow
        The flow of the order parameters.
    runs
        The descents in ``R^D``, one for each seed.
    gaps
        Largest distance of a run to the flow over the whole path, for each overlap (and the bias,
        if it is learned).
    dim, rate, batch
        ``D``; the rate as it was given; sequences a step.
    """

    flow: Flow
    runs: tuple[Trajectory, ...]
    gaps: dict[str, float]
    dim: int
    rate: float
    batch: int
    seconds: float

    @property
    def worst(self) -> float:
        """The largest of all gaps."""
        return max(self.gaps.values())

    @property
    def times(self) -> FloatArray:
        """Times at which both sides are known."""
        return min((run.times for run in self.runs), key=len)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values: gaps, setting and both sides."""
        return {name: plain(value) for name, value in vars(self).items()} | {"worst": self.worst}

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each run and time: each overlap, and beside it that of the flow."""
        import pandas as pd

        tables = []
        for number, run in enumerate(self.runs):
            table: dict[str, Any] = {"run": number, "times": run.times}
            for name in (*OVERLAPS, "bias"):
                table[name] = getattr(run, name)
                table[f"{name}_flow"] = _on(self.flow, name, run.times)
            table |= {"risk": run.loss, "risk_error": run.loss_error}
            tables.append(pd.DataFrame(table | {"risk_flow": _on(self.flow, "risk", run.times)}))
        return pd.concat(tables, ignore_index=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and risk against time: points of each run, lines of the flow."""
        axes = axes_of(ax)
        names = ("m_kk", "m_vv", "m_kv", "m_vk")
        columns = {name: getattr(self.flow, name) for name in (*names, "risk")}
        draw_quantities(axes, self.flow.times, columns)
        for run in self.runs:
            measured = {name: getattr(run, name) for name in names} | {"risk": run.loss}
            draw_quantities(axes, run.times, measured, points=True, labels=False)
        axes.set(xlabel="time $t$", title="points: descent, lines: flow")
        axes.legend()
        return axes

    def __str__(self) -> str:
        name = max(self.gaps, key=lambda key: self.gaps[key])
        first = self.runs[0]
        return (
            f"{first.method} of {self.flow.setting}, D {self.dim}, {len(self.runs)} runs to time "
            f"{first.times[-1]:g}: largest gap to the flow {self.worst:.4f} in {name}, "
            f"{self.status}"
        )


def compare_descent(
    task: Task,
    activation: Activation | str,
    *,
    dim: int,
    time: float = 8.0,
    rate: float = 0.01,
    batch: int | None = None,
    start: Point | str = "random",
    size: float | None = None,
    bias: float | None = None,
    record: int = 41,
    test_samples: int = 2000,
    seeds: int = 1,
    seed: int = 0,
    landscape: Landscape | None = None,
    report: Report | None = None,
) -> FlowComparison:
    r"""Follow gradient flow, and descent of the same risk in ``R^D`` on fresh sequences.

    A step ``k ← k − η D ∂/∂k`` of the mean loss of ``batch`` fresh sequences takes the time ``η``.
    Sequences come in mirrored pairs (see `slrlab.online_sgd`). What separates the two sides is
    the step, ``O(η)``, and the noise of the gradient: a drift of ``q`` of ``O(ηD/batch)`` and
    fluctuations of ``O(√(η/batch))``. A given accuracy thus costs a number of sequences that grows
    as ``D``, whatever the rate.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is learned.
    dim
        ``D``, at least 4.
    time
        How long to go.
    rate, batch
        ``η`` and the sequences a step, an even number; None for ``D`` or the next even number.
    start, size, bias, landscape
        As for `slrlab.gradient_flow`; vectors of R⁴ are put on the teachers and on two directions
        that each run draws.
    record
        Number of times to compare, evenly spaced from start to end.
    test_samples
        Fresh sequences that measure the risk of the descent.
    seeds, seed
        Number of runs, and the seed of the first one and of a random start.
    report
        Called as ``report(done, total, label)`` along the way.

    Raises
    ------
    ValueError
        If a number is out of range or the start is none.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_descent
    >>> start = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, 0.1, 0.2])
    >>> given = {"dim": 100, "time": 1.0, "start": start, "rate": 0.02}
    >>> found = compare_descent(SpikedSLR(signal=2.0, length=3), "softmax", **given)
    >>> bool(found.flow.risk[-1] < 0.6), found.worst < 0.15
    (True, True)
    """
    chosen = _chosen(task, activation, bias)
    dim, rate = _checks.integer(dim, "dim", low=4), _checks.positive(rate, "rate")
    pairs = dim + dim % 2 if batch is None else _checks.integer(batch, "batch", low=2)
    began = clock.perf_counter()
    runs = _descents(
        task,
        chosen,
        (start, size, bias),
        (seeds, seed),
        report,
        dim=dim,
        rate=rate * dim,
        batch=pairs,
        mirrored=True,
        time=time,
        record=record,
        test_samples=test_samples,
    )
    flow = gradient_flow(
        task,
        chosen,
        start=start,
        size=size,
        bias=bias,
        **_planned(runs, time),
        tolerance=_STILL,
        seed=seed,
        landscape=landscape,
        report=report,
    )
    return _together(flow, runs, rate, clock.perf_counter() - began)


def compare_sgd(
    task: Task,
    activation: Activation | str,
    *,
    dim: int,
    rate: float,
    time: float = 8.0,
    batch: int = 1,
    start: Point | str = "random",
    size: float | None = None,
    bias: float | None = None,
    record: int = 41,
    test_samples: int = 2000,
    seeds: int = 1,
    seed: int = 0,
    landscape: Landscape | None = None,
    report: Report | None = None,
) -> FlowComparison:
    r"""Follow online SGD at a constant rate as a flow with noise, and as it runs in ``R^D``.

    A step of rate ``η`` takes the time ``η/D``. What is left between the two sides are fluctuations
    of ``O(√(η/(D·batch)))`` and terms of ``O(1/D)``.

    Parameters
    ----------
    rate, batch
        ``η`` of `slrlab.online_sgd` and `slrlab.sgd_flow`, and sequences a step.
    task, activation, dim, time, start, size, bias, landscape
        As for `compare_descent`.
    record, test_samples, seeds, seed, report
        As for `compare_descent`.

    Raises
    ------
    ValueError
        If a number is out of range or the start is none.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_sgd
    >>> start = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, 0.1, 0.2])
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> found = compare_sgd(task, "softmax", dim=200, rate=0.2, time=1.0, start=start)
    >>> found.worst < 0.15
    True
    """
    chosen = _chosen(task, activation, bias)
    dim, rate = _checks.integer(dim, "dim", low=4), _checks.positive(rate, "rate")
    began = clock.perf_counter()
    runs = _descents(
        task,
        chosen,
        (start, size, bias),
        (seeds, seed),
        report,
        dim=dim,
        rate=rate,
        batch=batch,
        time=time,
        record=record,
        test_samples=test_samples,
    )
    flow = sgd_flow(
        task,
        chosen,
        rate=rate,
        batch=batch,
        start=start,
        size=size,
        bias=bias,
        **_planned(runs, time),
        tolerance=_STILL,
        seed=seed,
        landscape=landscape,
        report=report,
    )
    return _together(flow, runs, rate, clock.perf_counter() - began)


def place_start(
    k: FloatArray, v: FloatArray, teacher: Teacher, *, bias: float = 0.0, seed: int = 0
) -> Weights:
    """Return vectors of ``R^D`` with the overlaps of ``k, v ∈ R⁴``.

    The basis is that of the flow: both teachers (normalised ones) and two directions orthogonal
    to them and to each other, drawn from the seed.

    >>> import numpy as np
    >>> teacher = Teacher.draw(50)
    >>> found = place_start(*np.eye(4)[[0, 2]], teacher).overlaps(teacher)
    >>> round(found.m_kk, 12), round(found.q_vv, 12), abs(found.q_kv) < 1e-12
    (1.0, 1.0, True)
    """
    entropy = np.random.SeedSequence(seed, spawn_key=(_DIRECTIONS,))
    free = np.random.default_rng(entropy).standard_normal((2, teacher.dim))
    given = np.stack([teacher.keys, teacher.values, *free])
    whole = np.linalg.qr(given.T)[0].T * math.sqrt(teacher.dim)
    basis = np.concatenate([given[:2], whole[2:]])
    return Weights(k @ basis, v @ basis, bias)


def _chosen(task: Task, activation: Activation | str, bias: float | None) -> Activation:
    """Return the activation of both sides, with the bias given where it is not learned."""
    found = checked(task, activation, 1.0).without_idle_bias()
    return found if found.bias is None or bias is None else found.with_bias(bias)


def _descents(
    task: Task,
    activation: Activation,
    begin: tuple[Point | str, float | None, float | None],
    numbers: tuple[int, int],
    report: Report | None,
    **given: Any,
) -> list[Trajectory]:
    """Run one descent for each seed, all from the same overlaps."""
    count, first = _checks.integer(numbers[0], "seeds"), _checks.integer(numbers[1], "seed", low=0)
    k, v = start_vectors(begin[0], begin[1], first)
    shift = start_bias(activation, begin[2])
    runs: list[Trajectory] = []
    for number in range(first, first + count):
        teacher = Teacher.draw(given["dim"], seed=number)
        start = place_start(k, v, teacher, bias=shift, seed=number)
        given |= {"start": start, "teacher": teacher, "seed": number, "report": report}
        runs.append(online_sgd(task, activation, **given))
    return runs


def _planned(runs: Sequence[Trajectory], time: float) -> dict[str, Any]:
    """Return until when to follow the flow and what to keep: the times of the longest run."""
    longest = max((run.times for run in runs), key=len)
    return {"time": max(time, float(longest[-1])), "times": longest}


def _on(flow: Flow, name: str, times: FloatArray) -> FloatArray:
    """Return a column of the flow at given times; a flow that arrived stays where it is."""
    return np.asarray(np.interp(times, flow.times, getattr(flow, name)))


def _together(
    flow: Flow, runs: Sequence[Trajectory], rate: float, seconds: float
) -> FlowComparison:
    worst = Status.worst(run.status for run in runs)
    status = Status.FAILED if flow.status is Status.FAILED else worst
    # a flow that settled stays; one that ran away says nothing about later times
    settled = flow.status is Status.CONVERGED or flow.gradient_norm < 2.0 * _STILL
    last = math.inf if settled else float(flow.times[-1])
    gaps = {}
    for name in (*OVERLAPS, "bias") if np.ptp(flow.bias) > 0.0 else OVERLAPS:
        distances = [
            np.abs(getattr(run, name) - _on(flow, name, run.times))[run.times <= last]
            for run in runs
        ]
        gaps[name] = float(np.max(np.concatenate(distances)))
    return FlowComparison(
        status=status,
        flow=flow,
        runs=tuple(runs),
        gaps=gaps,
        dim=runs[0].dim,
        rate=rate,
        batch=runs[0].batch,
        seconds=seconds,
    )

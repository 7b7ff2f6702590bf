r"""Descent in ``R^D`` beside the flow of its order parameters, at the same times.

The flow is that of the population risk, so every step of the descent takes fresh sequences: on a
fixed set of ``N`` it would go to the minimum of their mean loss, which is another point at any
finite ``N/D``. Time is that of `slrlab.simulation.descent.full_batch`.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np

from slrlab import _checks
from slrlab._plot import draw_quantities
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import OVERLAPS
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.descent.stochastic import online_sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.simulation.training.objective import Weights
from slrlab.theory.landscape.flow import gradient_flow
from slrlab.theory.landscape.path import Flow, start_vectors
from slrlab.theory.landscape.risk import Landscape, Point, start_bias
from slrlab.theory.landscape.stochastic import sgd_flow
from slrlab.theory.population.minimal import checked

_STILL = 1e-9  # gradient below which a flow may stop before the descent beside it
_DIRECTIONS = 7  # key of the random numbers behind the free directions


@dataclass(frozen=True)
class FlowComparison(Result):
    """A flow and simulated descents from the same start, at the same times.

    Attributes
    ----------
    status
        ``sampled``: both sides reached the end. ``diverged`` or ``failed``: one of them did not,
        and the gaps are those before.
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
        return super().to_dict() | {"worst": self.worst}

    def to_frame(self) -> DataFrame:
        """Return one row for each run and time: each overlap, and beside it that of the flow."""
        import pandas as pd

        tables = []
        for number, run in enumerate(self.runs):
            table: dict[str, Any] = {"run": number, "times": run.times}
            for name in (*OVERLAPS, "bias"):
                table |= {name: getattr(run, name), f"{name}_flow": _at(self.flow, name, run.times)}
            table |= {"risk": run.loss, "risk_error": run.loss_error}
            tables.append(pd.DataFrame(table | {"risk_flow": _at(self.flow, "risk", run.times)}))
        return pd.concat(tables, ignore_index=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and risk against time: points of each run, lines of the flow."""
        names = ("m_kk", "m_vv", "m_kv", "m_vk")
        columns = {name: getattr(self.flow, name) for name in (*names, "risk")}
        axes = draw_quantities(ax, self.flow.times, columns, xlabel="time $t$")
        for run in self.runs:
            measured = {name: getattr(run, name) for name in names} | {"risk": run.loss}
            draw_quantities(axes, run.times, measured, points=True, labels=False)
        axes.set_title("points: descent, lines: flow")
        return axes

    def __str__(self) -> str:
        name = max(self.gaps, key=lambda key: self.gaps[key])
        first = self.runs[0]
        return (
            f"{first.method} of {self.flow.setting}, D {self.dim}, {len(self.runs)} runs to time "
            f"{first.times[-1]:g}: largest gap to the flow {self.worst:.4f} in {name}, "
            f"{self.status}"
        )


class Options(TypedDict, total=False):
    """Options of both comparisons, see `compare_descent`."""

    time: float
    start: Point | str
    size: float | None
    bias: float | None
    record: int
    test_samples: int
    seeds: int
    seed: int
    report: Report | None


def compare_descent(
    task: Task,
    activation: Activation | str,
    *,
    dim: int,
    rate: float = 0.01,
    batch: int | None = None,
    landscape: Landscape | None = None,
    **options: Unpack[Options],
) -> FlowComparison:
    r"""Follow gradient flow, and descent of the same risk in ``R^D`` on fresh sequences.

    A step ``k ← k − η D ∂/∂k`` of the mean loss of ``batch`` fresh sequences takes the time ``η``.
    Sequences come in mirrored pairs (see `slrlab.online_sgd`). The two sides differ by the step,
    ``O(η)``, and by the noise of the gradient: a drift of ``q`` of ``O(ηD/batch)`` and
    fluctuations of ``O(√(η/batch))``. A given accuracy thus costs a number of sequences that grows
    as ``D``, whatever the rate.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is learned.
    dim
        ``D``, at least 4.
    rate, batch
        ``η`` and the sequences a step, an even number; None for ``D`` or the next even number.
    start, size, bias, landscape
        As for `slrlab.gradient_flow`; the basis of R⁴ is the teachers and two directions that
        each run draws.
    time
        End of the path, by default 8.
    record
        Number of times to compare, evenly spaced from start to end; by default 41.
    test_samples
        Fresh sequences that measure the risk of the descent, by default 2000.
    seeds, seed
        Number of runs, by default 1, and the seed of the first one and of a random start.
    report
        Called as ``report(done, total, label)`` along the way.

    Returns
    -------
    FlowComparison
        The flow, the descents and their differences, quantity by quantity.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_descent
    >>> start = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, 0.1, 0.2])
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> both = compare_descent(task, "softmax", dim=100, time=1.0, start=start, rate=0.02)
    >>> bool(both.flow.risk[-1] < 0.6), both.worst < 0.15
    (True, True)
    """
    dim, rate = _checks.integer(dim, "dim", low=4), _checks.positive(rate, "rate")
    batch = dim + dim % 2 if batch is None else _checks.integer(batch, "batch", low=2)
    descend = partial(online_sgd, rate=rate * dim, batch=batch, mirrored=True)
    follow = partial(gradient_flow, landscape=landscape)
    return compare_paths(task, activation, descend, follow, dim=dim, rate=rate, **options)


def compare_sgd(
    task: Task,
    activation: Activation | str,
    *,
    dim: int,
    rate: float,
    batch: int = 1,
    landscape: Landscape | None = None,
    **options: Unpack[Options],
) -> FlowComparison:
    r"""Follow online SGD at a constant rate as a flow with noise, and as it runs in ``R^D``.

    A step of rate ``η`` takes the time ``η/D``. The two sides differ by fluctuations of
    ``O(√(η/(D·batch)))`` and terms of ``O(1/D)``.

    Parameters
    ----------
    rate, batch
        ``η`` of `slrlab.online_sgd` and `slrlab.sgd_flow`, and sequences a step.
    task, activation, dim, landscape, options
        As for `compare_descent`.

    Returns
    -------
    FlowComparison
        The flow, the runs and their differences, quantity by quantity.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_sgd
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> compare_sgd(task, "softmax", dim=200, rate=0.2, time=1.0, start="matched").worst < 0.15
    True
    """
    dim, rate = _checks.integer(dim, "dim", low=4), _checks.positive(rate, "rate")
    descend = partial(online_sgd, rate=rate, batch=batch)
    follow = partial(sgd_flow, rate=rate, batch=batch, landscape=landscape)
    return compare_paths(task, activation, descend, follow, dim=dim, rate=rate, **options)


def place_start(
    k: FloatArray, v: FloatArray, teacher: Teacher, *, bias: float = 0.0, seed: int = 0
) -> Weights:
    """Return vectors of ``R^D`` with the overlaps of ``k, v ∈ R⁴``.

    The basis is that of the flow: both teachers, which must be normalised, and two directions
    drawn from the seed, orthogonal to them and to each other.

    >>> import numpy as np
    >>> teacher = Teacher.draw(50)
    >>> order = place_start(*np.eye(4)[[0, 2]], teacher).overlaps(teacher)
    >>> round(order.m_kk, 12), round(order.q_vv, 12), abs(order.q_kv) < 1e-12
    (1.0, 1.0, True)
    """
    entropy = np.random.SeedSequence(seed, spawn_key=(_DIRECTIONS,))
    free = np.random.default_rng(entropy).standard_normal((2, teacher.dim))
    given = np.stack([teacher.keys, teacher.values, *free])
    whole = np.linalg.qr(given.T)[0].T * math.sqrt(teacher.dim)
    basis = np.concatenate([given[:2], whole[2:]])
    return Weights(k @ basis, v @ basis, bias)


def compare_paths(
    task: Task,
    activation: Activation | str,
    descend: Callable[..., Trajectory],
    follow: Callable[..., Flow],
    *,
    dim: int,
    rate: float,
    time: float = 8.0,
    start: Point | str = "random",
    size: float | None = None,
    bias: float | None = None,
    record: int = 41,
    test_samples: int = 2000,
    seeds: int = 1,
    seed: int = 0,
    report: Report | None = None,
) -> FlowComparison:
    """Run a descent for each seed, all from the same overlaps, and follow the flow as long."""
    began = clock.perf_counter()
    chosen = checked(task, activation, 1.0).without_idle_bias()
    if chosen.bias is not None and bias is not None:
        chosen = chosen.with_bias(bias)
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    k, v = start_vectors(start, size, seed)
    path = {"dim": dim, "time": time, "record": record, "test_samples": test_samples}
    runs = []
    for number in range(seed, seed + seeds):
        teacher = Teacher.draw(dim, seed=number)
        first = place_start(k, v, teacher, bias=start_bias(chosen, bias), seed=number)
        own = {"start": first, "teacher": teacher, "seed": number}
        runs.append(descend(task, chosen, **path, **own, report=report))
    times = max((run.times for run in runs), key=len)
    begin = {"start": start} | ({} if size is None else {"size": size})
    begin |= {} if bias is None else {"bias": bias}
    stop = {"time": max(time, float(times[-1])), "times": times, "tolerance": _STILL}
    flow = follow(task, chosen, **begin, **stop, seed=seed, report=report)
    worst = Status.worst(run.status for run in runs)
    return FlowComparison(
        status=Status.FAILED if flow.status is Status.FAILED else worst,
        flow=flow,
        runs=tuple(runs),
        gaps=_gaps(flow, runs),
        dim=dim,
        rate=rate,
        batch=runs[0].batch,
        seconds=clock.perf_counter() - began,
    )


def _gaps(flow: Flow, runs: Sequence[Trajectory]) -> dict[str, float]:
    """Return the largest distance of a run to the flow, for each overlap and a learned bias."""
    # a flow that settled stays; one that diverged predicts nothing for later times
    settled = flow.status is Status.CONVERGED or flow.gradient_norm < 2.0 * _STILL
    last = math.inf if settled else float(flow.times[-1])
    gaps = {}
    for name in (*OVERLAPS, "bias") if np.ptp(flow.bias) > 0.0 else OVERLAPS:
        distances = [
            np.abs(getattr(run, name) - _at(flow, name, run.times))[run.times <= last]
            for run in runs
        ]
        gaps[name] = float(np.max(np.concatenate(distances)))
    return gaps


def _at(flow: Flow, name: str, times: FloatArray) -> FloatArray:
    """Return a column of the flow at given times; after its end it keeps the last value."""
    return np.asarray(np.interp(times, flow.times, getattr(flow, name)))

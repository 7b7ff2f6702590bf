r"""Approximate message passing at given ``α = N/D``: draw data, iterate, test, for several seeds.

The counterpart on real matrices of the Bayes-optimal state evolution. They share the model and the
one-token integrals of `slrlab.numerics` (`race`, `weighted_race`, `smoothed`), which have tests of
their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import FloatArray, Report
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task, check_task
from slrlab.simulation.data.dataset import (
    Dataset,
    Teacher,
    check_memory,
    draw_dataset,
    fresh_batches,
)
from slrlab.simulation.message_passing.iteration import PRECISIONS, iterate
from slrlab.simulation.message_passing.output_channel import LocationModel, location_model
from slrlab.simulation.training.erm import samples_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_PER_ITERATION = ("q_k", "q_v", "norm_k", "norm_v", "gap_k", "gap_v", "risk")


@dataclass(frozen=True)
class AmpRun:
    """One run of message passing, a number for each iteration; see `AmpSimulation`."""

    seed: int
    status: Status
    q_k: tuple[float, ...]
    q_v: tuple[float, ...]
    norm_k: tuple[float, ...]
    norm_v: tuple[float, ...]
    gap_k: tuple[float, ...]
    gap_v: tuple[float, ...]
    risk: tuple[float, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for tables and JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class AmpSimulation(Result):
    """Message passing on simulated data, averaged over seeds, one number for each iteration.

    Attributes
    ----------
    iteration
        1, 2, …, as far as all seeds got.
    q_k, q_v
        Overlaps ``k̂·k*/D``, ``v̂·v*/D`` of the estimates with the teachers.
    norm_k, norm_v, gap_k, gap_v
        ``|k̂|²/D``, ``|v̂|²/D`` and what the algorithm itself believes ``1 − q`` to be. In the limit
        the norms equal the overlaps.
    risk
        Mean squared error on fresh data; nan if no test samples were asked for.
    errors
        Standard errors over seeds of the numbers above, by name; nan with one seed.
    seconds
        Wall time of one run without its test, on average.
    setting
        Task, and ``alpha`` as the ``N/D`` of the data.
    runs
        Each run.
    """

    iteration: tuple[int, ...]
    q_k: tuple[float, ...]
    q_v: tuple[float, ...]
    norm_k: tuple[float, ...]
    norm_v: tuple[float, ...]
    gap_k: tuple[float, ...]
    gap_v: tuple[float, ...]
    risk: tuple[float, ...]
    errors: dict[str, tuple[float, ...]]
    seconds: float
    dim: int
    samples: int
    seeds: int
    damping: float
    precision: str
    setting: Setting
    runs: tuple[AmpRun, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each iteration: each number and its standard error over seeds."""
        import pandas as pd

        columns: dict[str, Any] = {"iteration": self.iteration}
        for name in _PER_ITERATION:
            columns |= {name: getattr(self, name), f"{name}_error": self.errors[name]}
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw overlaps and risk against the iteration, with standard errors over seeds."""
        axes = axes_of(ax)
        columns = {name: getattr(self, name) for name in ("q_k", "q_v", "risk")}
        draw_quantities(axes, self.iteration, columns, self.errors, points=True)
        axes.set(xlabel="iteration")
        axes.legend()
        return axes

    def __str__(self) -> str:
        last = f"q_k {self.q_k[-1]:.4f}, q_v {self.q_v[-1]:.4f}" if self.q_k else "nothing"
        return (
            f"AMP on {self.setting}, D {self.dim}: {last} after {len(self.q_k)} iterations, "
            f"{self.status}"
        )


def run_amp(
    task: Task,
    *,
    alpha: float,
    dim: int,
    seeds: int = 4,
    seed: int = 0,
    steps: int = 20,
    test_samples: int = 20_000,
    damping: float = 0.0,
    precision: str = "ratio",
    teacher: str = "normalised",
    dtype: str = "float32",
    strict: bool = False,
    report: Report | None = None,
) -> AmpSimulation:
    r"""Run approximate message passing on ``N = αD`` simulated sequences, for several seeds.

    For each column (keys, values) ``ω = Xŵ/√D − V g_{t−1}``, ``g = ∂_ω log Z``,
    ``B = Xᵀg/√D + Mŵ``, ``ŵ = B/(1+V̂)``, ``V = 1/(1+V̂)``, from ``ŵ = 0``, with
    ``M = −α⟨div g⟩`` and ``V̂ = M`` (keys of tilted tasks: ``M + α(E χ*_ε² − 1)``). As ``D → ∞``
    the overlaps follow the state evolution step by step; at finite ``D`` they fluctuate by
    ``O(1/√D)``.

    Parameters
    ----------
    task
        Any `TiltedTask` with a finite signal, or any `SelectionTask`.
    alpha, dim
        Sequences per dimension, and dimensions.
    seeds, seed
        Number of runs, each with its own teachers and data, and the first of their seeds.
    steps
        Iterations.
    test_samples
        Fresh sequences that measure the risk of each run; 0 for none.
    damping
        Weight of the old iterate, in ``[0, 1)``. Anything but 0 leaves the state evolution.
    precision
        How ``V̂`` is measured: ``"ratio"``, ``"norm"`` or ``"divergence"``. All have the same
        limit; see `slrlab.simulation.message_passing.iteration` for why the default is the first.
    teacher
        ``"normalised"`` or ``"gaussian"``.
    dtype
        ``"float32"`` or ``"float64"`` tokens.
    strict
        Raise `slrlab.ComputationError` if a run diverged.
    report
        Called as ``report(done, total, label)`` while it runs.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If a number is out of range, the task contradicts itself, or the data would not fit into
        memory.

    Examples
    --------
    >>> from slrlab import SpikedSLR, run_amp
    >>> found = run_amp(SpikedSLR(2.0, 3, noise=0.3), alpha=2.0, dim=400, steps=8, seeds=2)
    >>> print(f"{found.q_v[-1]:.1f}", found.status)
    0.8 sampled
    """
    check_task(task)
    count = samples_of(alpha, dim)
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    most = _checks.integer(steps, "steps")
    tests = _checks.integer(test_samples, "test_samples", low=0)
    weight = _damping(damping)
    _checks.choice(precision, "precision", PRECISIONS)
    check_memory(task, dim, count, dtype)
    runs = []
    for number in range(seeds):
        own = seed + number
        data = draw_dataset(task, dim=dim, samples=count, seed=own, teacher=teacher, dtype=dtype)
        began, path = time.perf_counter(), []
        for state in islice(iterate(data, task, damping=weight, precision=precision), most):
            path.append(_Point(state.weights, state.gaps, state.sound))
            if report is not None:
                label = f"AMP, seed {number + 1} of {seeds}"
                report(number * most + len(path), seeds * most, label)
        seconds = time.perf_counter() - began
        drawn = data.teacher
        assert drawn is not None
        del data, state  # the tokens of the next seed take their place
        runs.append(_run(task, own, path, drawn, tests, seconds))
    result = _average(runs, task, dim, count, weight, precision)
    return result.require() if strict else result


@dataclass(frozen=True)
class _Point:
    """What is kept of an iteration."""

    weights: FloatArray
    gaps: FloatArray
    sound: bool


def _damping(value: float) -> float:
    accepted = "a number in [0, 1)"
    weight = _checks.real(value, "damping", accepted=accepted, low=0.0, high=1.0)
    if weight == 1.0:
        raise ValueError(f"damping must be {accepted}, got {value}")
    return weight


def _run(
    task: Task, seed: int, path: Sequence[_Point], teacher: Teacher, tests: int, seconds: float
) -> AmpRun:
    """Measure overlaps and risk of every sound iteration."""
    sound = [point for point in path if point.sound]
    teachers = np.stack([teacher.keys, teacher.values])
    rows = np.empty((len(_PER_ITERATION), len(sound)))
    for step, point in enumerate(sound):
        rows[:2, step] = (point.weights * teachers).mean(axis=1)
        rows[2:4, step] = (point.weights**2).mean(axis=1)
        rows[4:6, step] = point.gaps
    rows[6] = _risks(task, sound, teacher, tests, seed)
    return AmpRun(
        seed=seed,
        status=Status.SAMPLED if len(sound) == len(path) else Status.DIVERGED,
        **{name: tuple(row.tolist()) for name, row in zip(_PER_ITERATION, rows, strict=True)},
        seconds=seconds,
    )


def _risks(
    task: Task, path: Sequence[_Point], teacher: Teacher, samples: int, seed: int
) -> list[float]:
    """Return the risk of ``Σ_ℓ p_ℓ(ω_χ) ω_zℓ`` after each iteration, all on the same fresh data."""
    if samples == 0 or not path:
        return [math.nan] * len(path)
    models = [location_model(task, float(point.gaps[0])) for point in path]
    vectors = np.concatenate([point.weights for point in path]).T / math.sqrt(teacher.dim)
    losses = np.zeros(len(path))
    for data in fresh_batches(task, teacher, samples=samples, seed=seed):
        scores = data.tokens @ vectors.astype(data.tokens.dtype)
        for step, model in enumerate(models):
            keys, values = scores[:, 2 * step : 2 * step + 2].astype(float).T
            losses[step] += _squares(data, model, keys, values)
    return [float(loss) for loss in losses / samples]


def _squares(data: Dataset, model: LocationModel, keys: FloatArray, values: FloatArray) -> float:
    """Return the sum of squared errors over a dataset."""
    total = 0.0
    for same, rows in data.by_length():
        answers = np.einsum("nl,nl->n", model.posterior(keys[rows]), values[rows])
        total += float(((data.labels[same] - answers) ** 2).sum())
    return total


def _average(
    runs: Sequence[AmpRun], task: Task, dim: int, samples: int, damping: float, precision: str
) -> AmpSimulation:
    reached = min(len(run.q_k) for run in runs)
    means: dict[str, tuple[float, ...]] = {}
    errors: dict[str, tuple[float, ...]] = {}
    for name in _PER_ITERATION:
        found = [Estimate.of([getattr(run, name)[step] for run in runs]) for step in range(reached)]
        means[name] = tuple(item.value for item in found)
        errors[name] = tuple(item.error for item in found)
    sound = all(run.status is Status.SAMPLED for run in runs)
    return AmpSimulation(
        status=Status.SAMPLED if sound else Status.DIVERGED,
        iteration=tuple(range(1, reached + 1)),
        **means,
        errors=errors,
        seconds=float(np.mean([run.seconds for run in runs])),
        dim=dim,
        samples=samples,
        seeds=len(runs),
        damping=damping,
        precision=precision,
        setting=Setting(task, alpha=samples / dim),
        runs=tuple(runs),
    )

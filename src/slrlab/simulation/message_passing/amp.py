r"""Approximate message passing at given ``α = N/D``: draw data, iterate, test, for several seeds.

It shares with the Bayes-optimal state evolution the model and the one-token integrals of
`slrlab.numerics` (`race`, `weighted_race`, `smoothed`), which have tests of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import draw_quantities
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame, FloatArray, Report
from slrlab.model.dispatch import check_task
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
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


@dataclass(frozen=True)
class _Path:
    """What is measured after each iteration."""

    q_k: tuple[float, ...]
    q_v: tuple[float, ...]
    norm_k: tuple[float, ...]
    norm_v: tuple[float, ...]
    variance_k: tuple[float, ...]
    variance_v: tuple[float, ...]
    risk: tuple[float, ...]


_PER_ITERATION = tuple(field.name for field in fields(_Path))


@dataclass(frozen=True)
class AmpRun(_Path):
    """One run of message passing, a number for each iteration; see `AmpSimulation`."""

    seed: int
    status: Status
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for tables and JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class AmpSimulation(_Path, Result):
    """Message passing on simulated data, averaged over seeds, one number for each iteration.

    Attributes
    ----------
    iteration
        1, 2, … up to the last one that all seeds reached.
    q_k, q_v
        Overlaps ``k̂·k*/D``, ``v̂·v*/D`` of the estimates with the teachers.
    norm_k, norm_v, variance_k, variance_v
        ``|k̂|²/D``, ``|v̂|²/D`` and the algorithm's own estimate of ``1 − q``. In the limit the
        norms equal the overlaps.
    risk
        Mean squared error on fresh data; nan without test samples.
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
    errors: dict[str, tuple[float, ...]]
    seconds: float
    dim: int
    samples: int
    seeds: int
    damping: float
    precision: str
    setting: Setting
    runs: tuple[AmpRun, ...]

    def to_frame(self) -> DataFrame:
        """Return one row for each iteration: each number and its standard error over seeds."""
        import pandas as pd

        columns: dict[str, Any] = {"iteration": self.iteration}
        for name in _PER_ITERATION:
            columns |= {name: getattr(self, name), f"{name}_error": self.errors[name]}
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw overlaps and risk against the iteration, with standard errors over seeds."""
        x, means = self.iteration, {name: getattr(self, name) for name in ("q_k", "q_v", "risk")}
        return draw_quantities(ax, x, means, self.errors, points=True, xlabel="iteration")

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
        Weight of the old iterate, in ``[0, 1)``. The state evolution holds for 0 only.
    precision
        How ``V̂`` is measured: ``"ratio"``, ``"norm"`` or ``"divergence"``. All have the same
        limit; see `slrlab.simulation.message_passing.iteration` for why the default is the first.
    teacher, dtype, report
        As for `slrlab.simulate_erm`.
    strict
        Raise `slrlab.ComputationError` if a run diverged.

    Returns
    -------
    AmpSimulation
        The runs, and means over seeds with standard errors.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If a number is out of range, the task is inconsistent, or the data would not fit into
        memory.

    Examples
    --------
    >>> from slrlab import SpikedSLR, run_amp
    >>> result = run_amp(SpikedSLR(2.0, 3, noise=0.3), alpha=2.0, dim=400, steps=8, seeds=2)
    >>> print(f"{result.q_v[-1]:.1f}", result.status)
    0.8 sampled
    """
    check_task(task)
    count = samples_of(alpha, dim)
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    steps = _checks.integer(steps, "steps")
    test_samples = _checks.integer(test_samples, "test_samples", low=0)
    damping = _checks.real(
        damping, "damping", accepted="a number in [0, 1)", low=0.0, high=math.nextafter(1.0, 0.0)
    )
    _checks.choice(precision, "precision", PRECISIONS)
    check_memory(task, dim, count, dtype)
    runs = []
    for number in range(seeds):
        own = seed + number
        data = draw_dataset(task, dim=dim, samples=count, seed=own, teacher=teacher, dtype=dtype)
        began, weights, variances = time.perf_counter(), [], []
        states = islice(iterate(data, task, damping=damping, precision=precision), steps)
        for done, state in enumerate(states, start=number * steps + 1):
            if state.sound:
                weights.append(state.weights)
                variances.append(state.variances)
            if report is not None:
                report(done, seeds * steps, f"AMP, seed {number + 1} of {seeds}")
        seconds = time.perf_counter() - began
        status = Status.SAMPLED if state.sound else Status.DIVERGED
        drawn = data.teacher
        assert drawn is not None
        del data, state  # frees the memory for the tokens of the next seed
        columns = _measure(task, weights, variances, drawn, test_samples, own)
        runs.append(AmpRun(seed=own, status=status, **columns, seconds=seconds))
    setting = Setting(task, alpha=count / dim)
    how: dict[str, Any] = {"damping": damping, "precision": precision, "setting": setting}
    result = _average(runs, dim=dim, samples=count, **how)
    return result.require() if strict else result


def _measure(
    task: Task,
    weights: list[FloatArray],
    variances: list[FloatArray],
    teacher: Teacher,
    samples: int,
    seed: int,
) -> dict[str, tuple[float, ...]]:
    """Return overlaps, norms, variances and risk after each iteration, by their names."""
    estimates = np.reshape(weights, (-1, 2, teacher.dim))
    overlaps = (estimates * [teacher.keys, teacher.values]).mean(axis=2)
    of_keys, of_values = np.reshape(variances, (-1, 2)).T
    risks = _risks(task, estimates, of_keys, teacher, samples, seed)
    rows = [*overlaps.T, *(estimates**2).mean(axis=2).T, of_keys, of_values, risks]
    return {name: tuple(row.tolist()) for name, row in zip(_PER_ITERATION, rows, strict=True)}


def _risks(
    task: Task,
    estimates: FloatArray,
    key_variances: FloatArray,
    teacher: Teacher,
    samples: int,
    seed: int,
) -> FloatArray:
    """Return the risk of ``Σ_ℓ p_ℓ(ω_χ) ω_zℓ`` after each iteration, all on the same fresh data."""
    if samples == 0 or key_variances.size == 0:
        return np.full(key_variances.size, math.nan)
    models = [location_model(task, variance) for variance in key_variances.tolist()]
    vectors = estimates.reshape(-1, teacher.dim).T / math.sqrt(teacher.dim)
    losses = np.zeros(len(models))
    for data in fresh_batches(task, teacher, samples=samples, seed=seed):
        scores = data.tokens @ vectors.astype(data.tokens.dtype)
        for step, model in enumerate(models):
            keys, values = scores[:, 2 * step : 2 * step + 2].astype(float).T
            losses[step] += _squares(data, model, keys, values)
    return losses / samples


def _squares(data: Dataset, model: LocationModel, keys: FloatArray, values: FloatArray) -> float:
    """Return the sum of squared errors over a dataset."""
    total = 0.0
    for same, rows in data.by_length():
        answers = np.einsum("nl,nl->n", model.posterior(keys[rows]), values[rows])
        total += float(((data.labels[same] - answers) ** 2).sum())
    return total


def _average(runs: Sequence[AmpRun], **given: Any) -> AmpSimulation:
    reached = min(len(run.q_k) for run in runs)
    errors: dict[str, tuple[float, ...]] = {}
    for name in _PER_ITERATION:
        steps = zip(*(getattr(run, name)[:reached] for run in runs), strict=True)
        estimates = [Estimate.of(values) for values in steps]
        given[name] = tuple(estimate.value for estimate in estimates)
        errors[name] = tuple(estimate.error for estimate in estimates)
    return AmpSimulation(
        status=Status.worst(run.status for run in runs),
        iteration=tuple(range(1, reached + 1)),
        errors=errors,
        seconds=float(np.mean([run.seconds for run in runs])),
        seeds=len(runs),
        runs=tuple(runs),
        **given,
    )

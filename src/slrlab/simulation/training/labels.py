r"""Keys from labelled locations and values from labels, on simulated data of a task.

Of each of ``N = αD`` sequences both the location and the label ``y`` are known: the keys are fitted
to the locations alone, the values then to the labels by ridge regression. It shares the
model and numerical routines with the theory, no formula of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._errors import ConvergenceWarning
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import Axes, Report
from slrlab.model.activations import SOFTMAX
from slrlab.model.arrangements import relevant_count
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Dataset, check_memory, draw_dataset
from slrlab.simulation.estimator.keys import fit_keys, fit_values
from slrlab.simulation.estimator.location_loss import LOSSES
from slrlab.simulation.training.erm import fresh_risk, samples_of
from slrlab.simulation.training.objective import Weights

MEASURED = ("test_risk", "key_overlap", "m_k", "q_k", "m_v", "q_v")


@dataclass(frozen=True)
class LabelSimulation(Result):
    """Softmax attention whose keys come from labelled locations, averaged over seeds.

    Attributes
    ----------
    test_risk, test_risk_error
        Risk measured on fresh data, and its standard error.
    key_overlap, key_overlap_error
        Squared cosine ``m_k²/q_k`` of the keys with their teacher, and its standard error.
    m_k, q_k, m_v, q_v
        Order parameters; ``errors`` has their standard errors.
    errors
        Standard errors over seeds; empty with one seed.
    steps
        Newton steps of one fit, on average.
    values
        Test risk and key overlap of each seed, as columns of a table.
    loss, dim, samples, seeds
        As given; ``samples`` is ``N``.
    setting
        Task, activation, ``alpha`` and the ridges.
    """

    test_risk: float
    test_risk_error: float
    key_overlap: float
    key_overlap_error: float
    m_k: float
    q_k: float
    m_v: float
    q_v: float
    errors: dict[str, float]
    steps: float
    values: dict[str, list[float]]
    loss: str
    dim: int
    samples: int
    seeds: int
    setting: Setting

    def estimate(self, name: str) -> Estimate:
        """Return a number with its standard error over seeds."""
        return Estimate(getattr(self, name), self.errors.get(name, np.nan), self.seeds - 1.0)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the test risk of each seed against its key overlap."""
        axes = axes_of(ax)
        axes.plot(self.values["key_overlap"], self.values["test_risk"], "o", color="#0072B2")
        axes.set(xlabel="overlap of the keys, $m_k^2/q_k$", ylabel="test risk")
        return axes

    def __str__(self) -> str:
        overlap = Estimate(self.key_overlap, self.key_overlap_error)
        risk = Estimate(self.test_risk, self.test_risk_error)
        return f"{self.setting}, labelled: key overlap {overlap}, test risk {risk}, {self.status}"


def simulate_labels(
    task: Task,
    *,
    alpha: float,
    dim: int,
    ridge_k: float,
    ridge_v: float,
    loss: str = "cross entropy",
    seeds: int = 4,
    seed: int = 0,
    test_samples: int = 20_000,
    report: Report | None = None,
) -> LabelSimulation:
    r"""Fit keys to the locations of ``N = αD`` simulated sequences, then values to their labels.

    Parameters
    ----------
    task
        A task with one relevant token.
    alpha, dim
        Sequences per dimension, and dimensions.
    ridge_k, ridge_v
        Ridges of the fit of the keys and of the regression of the values.
    loss
        ``"cross entropy"`` or ``"least squares"``, as of `slrlab.fit_keys`.
    seeds, seed
        Number of datasets, and the first of their seeds.
    test_samples
        Fresh sequences that measure the risk; 0 for none.
    report
        Called as ``report(done, total, label)`` while it runs.

    Returns
    -------
    LabelSimulation
        Overlaps, hit rate and risk as means over seeds, with standard errors.

    Raises
    ------
    ValueError
        If a number is out of range, or a sequence has several relevant tokens.

    Examples
    --------
    >>> from slrlab import SpikedSLR, simulate_labels
    >>> result = simulate_labels(SpikedSLR(2.0, 3), alpha=4.0, dim=100, ridge_k=10.0, ridge_v=1.0)
    >>> print(f"{result.key_overlap:.1f} {result.status}")
    0.8 sampled
    """
    _checks.choice(loss, "loss", LOSSES)
    if relevant_count(task) > 1:
        _checks.fail("task", "one with a single relevant token", task.name)
    ridges = _checks.non_negative(ridge_k, "ridge_k"), _checks.non_negative(ridge_v, "ridge_v")
    count = samples_of(alpha, dim)
    test_samples = _checks.integer(test_samples, "test_samples", low=0)
    check_memory(task, dim, count, "float64")
    seed, seeds = _checks.integer(seed, "seed", low=0), _checks.integer(seeds, "seeds")
    runs = []
    for number in range(seeds):
        if report is not None:
            report(number, seeds, f"fit {number + 1} of {seeds}")
        own = seed + number
        data = draw_dataset(task, dim=dim, samples=count, seed=own, dtype="float64")
        assert data.teacher is not None
        (fit,) = label_fits(data, loss, [ridges[0]], [ridges[1]])
        fresh: dict[str, Any] = {"samples": test_samples, "seed": own}
        risk = fresh_risk(task, SOFTMAX, fit.weights, data.teacher, **fresh)
        runs.append(fit.numbers | {"test_risk": risk.value, "error": risk.error})
    setting = Setting(task, SOFTMAX, count / dim, *ridges)
    return _average(runs, setting=setting, loss=loss, dim=dim, samples=count)


@dataclass(frozen=True)
class LabelFit:
    """Keys and values fitted to one dataset with given ridges, and their order parameters."""

    weights: Weights
    ridge_k: float
    ridge_v: float
    numbers: dict[str, Any]


def label_fits(
    data: Dataset, loss: str, ridges_k: Sequence[float], ridges_v: Sequence[float]
) -> list[LabelFit]:
    """Return the fits of all pairs of ridges to one dataset, each fit of keys continued."""
    assert data.teacher is not None
    assert data.locations is not None
    sequences = [data.sequence(index) for index in range(data.samples)]
    fits, k = [], None
    for ridge in ridges_k:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status says it
            keys = fit_keys(sequences, data.locations, loss, ridge=ridge, start=k)
        k = keys.k
        for ridge_v in ridges_v:
            weights = Weights(k, fit_values(sequences, data.labels, k, ridge=ridge_v))
            order = weights.overlaps(data.teacher)
            numbers: dict[str, Any] = {"m_k": order.m_kk, "q_k": order.q_kk}
            numbers |= {"m_v": order.m_vv, "q_v": order.q_vv}
            overlap = order.m_kk**2 / order.q_kk if order.q_kk > 0.0 else 0.0
            numbers |= {"key_overlap": overlap, "steps": keys.steps, "status": str(keys.status)}
            fits.append(LabelFit(weights, ridge, ridge_v, numbers))
    return fits


def _average(runs: list[dict[str, Any]], **given: Any) -> LabelSimulation:
    means = {name: Estimate.of([run[name] for run in runs]) for name in MEASURED}
    errors = {name: mean.error for name, mean in means.items()} if len(runs) > 1 else {}
    worst = Status.worst(Status(run["status"]) for run in runs)
    return LabelSimulation(
        status=Status.SAMPLED if worst is Status.CONVERGED else worst,
        test_risk_error=errors.get("test_risk", runs[0]["error"]),
        key_overlap_error=errors.get("key_overlap", np.nan),
        errors=errors,
        steps=float(np.mean([run["steps"] for run in runs])),
        values={name: [run[name] for run in runs] for name in ("test_risk", "key_overlap")},
        seeds=len(runs),
        **given | {name: mean.value for name, mean in means.items()},
    )

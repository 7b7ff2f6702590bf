r"""What labelled locations are worth: keys fitted to locations beside training from ``y`` alone.

The common measure is the overlap ``m_k²/q_k`` of the keys with their teacher, and the test risk
after the values are fitted by ridge regression. Training from ``y`` alone is the theory at the
ridges of least test risk. A labelled location is worth as many ``y`` as training needs for the same
overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.comparison.exchange_rate import exchange_rate, same_overlap
from slrlab.experiments.comparison.learning_curve import trained_curve
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import SOFTMAX
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.simulation.data.dataset import check_memory, draw_dataset
from slrlab.simulation.estimator.location_loss import LOSSES, check_newton_memory
from slrlab.simulation.training.erm import samples_of
from slrlab.simulation.training.labels import label_fits
from slrlab.theory.population.minimal import risk_at

ALPHAS = (1.0, 4.0, 16.0)
RIDGES_K = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # times √α
RIDGES_V = (0.3, 1.0, 3.0)
_BEYOND = 32.0  # α of the theory over that of the labels, to find the same overlap
_CURVE = 9  # points of the theory


class _Point(NamedTuple):
    task: Task
    alpha: float
    dim: int
    loss: str
    seed: int


@dataclass(frozen=True)
class LabelPoint:
    """Labelled locations at one ``alpha``.

    Attributes
    ----------
    alpha
        Labelled sequences per dimension.
    overlap, overlap_error, widest_overlap
        Key overlap ``m_k²/q_k`` at the ridges of least test risk, its standard error, and the
        overlap at the ridge where it is largest.
    risk, risk_error, ridge_k, ridge_v
        Test risk from the order parameters, and the ridges where it is least.
    y_overlap, y_risk
        Key overlap and test risk of training from as many ``y`` alone.
    worth, widest_worth
        Number of ``y`` per labelled location with which training from ``y`` alone reaches
        ``overlap`` and ``widest_overlap``; nan beyond the range of the theory.
    worth_error, worth_status
        Standard error from that of ``overlap``; worst status of the two points of the theory
        between which ``worth`` lies.
    status
        The worst status of the fits.
    """

    alpha: float
    overlap: float
    overlap_error: float
    widest_overlap: float
    risk: float
    risk_error: float
    ridge_k: float
    ridge_v: float
    y_overlap: float
    y_risk: float
    worth: float
    worth_error: float
    worth_status: str
    widest_worth: float
    status: str


@dataclass(frozen=True)
class LabelsWorth(Result):
    """Labelled locations beside training from ``y`` alone.

    Attributes
    ----------
    points
        One for each ``alpha``.
    curve
        The theory of training from ``y`` alone at its best ridges: alpha, overlap, risk, status.
    """

    points: tuple[LabelPoint, ...]
    curve: DataFrame
    task: Task
    loss: str
    dim: int
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        """Return points and curve as JSON-ready values."""
        own = {"status": str(self.status), "task": self.task.name} | self.task.parameters
        own |= {"loss": self.loss, "dim": self.dim, "seeds": self.seeds}
        own |= {"rows": [vars(point) for point in self.points]}
        return {name: plain(value) for name, value in own.items()} | {
            "curve": plain(self.curve.to_dict("records"))
        }

    def to_frame(self) -> DataFrame:
        """Return one row for each ``alpha``."""
        import pandas as pd

        return pd.DataFrame([vars(point) for point in self.points])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people."""
        columns = ["alpha", "overlap", "from y alone", "a label is worth", "risk", "from y alone"]
        return columns, [
            [
                f"{one.alpha:g}",
                str(Estimate(one.overlap, one.overlap_error)),
                f"{one.y_overlap:.3f}",
                f"{Estimate(one.worth, one.worth_error)} y" if math.isfinite(one.worth) else "?",
                str(Estimate(one.risk, one.risk_error)),
                f"{one.y_risk:.3f}",
            ]
            for one in self.points
        ]

    def __str__(self) -> str:
        return f"{self.task.name}-SLR, signal {self.task.signal:g}, keys by {self.loss}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the key overlap from labels and from ``y`` alone against ``alpha``."""
        axes, frame = axes_of(ax), self.to_frame()
        error = frame["overlap_error"]
        axes.errorbar(frame["alpha"], frame["overlap"], yerr=error, fmt="o", label="labels")
        axes.plot(self.curve["alpha"], self.curve["overlap"], color="0.3", label="y alone")
        axes.set(xscale="log", xlabel="$\\alpha$", ylabel="overlap of the keys, $m_k^2/q_k$")
        axes.legend()
        return axes


def labelled_overlap(task: Task, alpha: float, *, centred: bool) -> float:
    r"""Return the key overlap ``m_k²/q_k`` that labelled locations allow on spiked-SLR.

    The mean of the marked tokens gives ``αν/(1 + αν)``, which is Bayes-optimal. If each token is
    first centred by the mean of its sequence (``centred``), which is all that softmax can see,
    ``ν`` is multiplied by ``1 − E[1/L]``: softmax regression with a large ridge.

    >>> from slrlab import SpikedSLR
    >>> labelled_overlap(SpikedSLR(2.0, 2), 1.0, centred=True)
    0.5
    """
    if not isinstance(task, SpikedSLR):
        _checks.fail("task", "SpikedSLR", type(task).__name__, TypeError)
    alpha = _checks.positive(alpha, "alpha")
    shown = 1.0 - math.fsum(p / n for n, p in task.length.pairs()) if centred else 1.0
    gain = alpha * task.signal * shown
    return gain / (1.0 + gain)


def labels_worth(
    task: Task,
    *,
    alpha: Sequence[float] = ALPHAS,
    dim: int = 200,
    loss: str = "cross entropy",
    seeds: int = 8,
    seed: int = 0,
    tolerance: float = 5e-3,
    curve: DataFrame | None = None,
    workers: int | None = 1,
    report: Report | None = None,
) -> LabelsWorth:
    r"""Compare keys from labelled locations with training from ``y`` alone.

    Parameters
    ----------
    task
        A task with one relevant token and a theory of training.
    alpha
        Labelled sequences per dimension, one or more numbers.
    dim, seeds, seed
        Size and number of the simulations, and the first of their seeds.
    loss
        ``"cross entropy"`` or ``"least squares"``.
    tolerance
        Standard error of the test risk of the theory.
    curve
        The theory of training from ``y`` alone, from an earlier result: it is not solved again.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    LabelsWorth
        A point for each ``alpha``, and the curve of training from ``y`` alone.

    Raises
    ------
    ValueError
        If a number is out of range or the data would not fit into memory, before any work.

    Examples
    --------
    >>> import pandas as pd
    >>> from slrlab import SpikedSLR, labels_worth
    >>> curve = pd.DataFrame({"alpha": [0.5, 8.0], "overlap": [0.05, 0.9], "risk": [0.9, 0.5]})
    >>> curve = curve.assign(risk_error=1e-3, status="sampled")
    >>> result = labels_worth(SpikedSLR(2.0, 3), alpha=[1.0], dim=20, seeds=2, curve=curve)
    >>> result.points[0].worth > 1.0  # labels y that give keys as good as one location does
    True
    """
    _checks.choice(loss, "loss", LOSSES)
    alphas = sorted({_checks.positive(value, "alpha") for value in alpha})
    if not alphas:
        _checks.fail("alpha", "one or more numbers > 0", "an empty list")
    dim, seeds = _checks.integer(dim, "dim", low=2), _checks.integer(seeds, "seeds", low=2)
    seed = _checks.integer(seed, "seed", low=0)
    if task.signal == 0.0:
        _checks.fail("signal", "a number > 0: without a signal there are no keys", task.signal)
    if task.length.longest == 1:
        _checks.fail("length", "at least 2: a single token is known", str(task.length))
    check_newton_memory(dim, "dim must be at most {most}")
    check_memory(task, dim, samples_of(alphas[-1], dim), "float64")
    if curve is None:
        curve = y_curve(task, alphas, tolerance, workers, report)
    points = [
        _Point(task, value, dim, loss, seed + index * seeds + number)
        for index, value in reversed(list(enumerate(alphas)))
        for number in range(seeds)
    ]
    done = parallel_map(_fits, points, label="labels", report=report, workers=workers)
    pairs = list(zip(points, done, strict=True))
    own = [[rows for point, rows in pairs if point.alpha == value] for value in alphas]
    summaries = tuple(_summary(*pair, curve) for pair in zip(alphas, own, strict=True))
    return LabelsWorth(
        status=Status.worst(Status(one.status) for one in summaries),
        points=summaries,
        curve=curve,
        task=task,
        loss=loss,
        dim=dim,
        seeds=seeds,
    )


def y_curve(
    task: Task,
    alphas: Sequence[float],
    tolerance: float,
    workers: int | None = 1,
    report: Report | None = None,
) -> DataFrame:
    """Return the theory of training from ``y`` alone, at its best ridges, as a table."""
    import pandas as pd

    grid = np.geomspace(min(alphas), _BEYOND * max(alphas), _CURVE)
    whole = sorted({*alphas, *grid.round(3).tolist()})
    item = (task, tuple(whole), tolerance)
    (rows,) = parallel_map(_curve, [item], label="y alone", report=report, workers=workers)
    return pd.DataFrame(rows).sort_values("alpha", ignore_index=True)


def _curve(item: tuple[Task, tuple[float, ...], float]) -> list[dict[str, Any]]:
    task, alphas, tolerance = item
    return [
        {
            "alpha": best.setting.alpha,
            "overlap": best.m_k**2 / best.q_k,
            "risk": best.test_risk,
            "risk_error": best.test_risk_error,
            "status": str(best.status),
        }
        for best in trained_curve(task, SOFTMAX, alphas, tolerance)
    ]


def _fits(point: _Point) -> list[dict[str, Any]]:
    """Return overlap and risk of one dataset for each pair of ridges."""
    count = samples_of(point.alpha, point.dim)
    data = draw_dataset(point.task, dim=point.dim, samples=count, seed=point.seed, dtype="float64")
    ridges = [ridge * math.sqrt(point.alpha) for ridge in reversed(RIDGES_K)]
    rows = []
    for fit in label_fits(data, point.loss, ridges, RIDGES_V):
        m_k, q_k, m_v, q_v = (fit.numbers[name] for name in ("m_k", "q_k", "m_v", "q_v"))
        order = OrderParameters(m_k, m_v, max(0.0, q_k - m_k**2), max(0.0, q_v - m_v**2))
        risk = risk_at(point.task, SOFTMAX, order, tolerance=1e-6).risk
        own = {"ridge_k": fit.ridge_k, "ridge_v": fit.ridge_v, "status": fit.numbers["status"]}
        rows.append(own | {"overlap": fit.numbers["key_overlap"], "risk": risk})
    return rows


def _summary(alpha: float, datasets: list[list[dict[str, Any]]], curve: DataFrame) -> LabelPoint:
    """Return the best ridges of all datasets of one ``alpha``, and what is reached there."""
    risks = np.array([[row["risk"] for row in rows] for rows in datasets])
    overlaps = np.array([[row["overlap"] for row in rows] for rows in datasets])
    best, widest = int(risks.mean(axis=0).argmin()), int(overlaps.mean(axis=0).argmax())
    overlap, risk = Estimate.of(overlaps[:, best]), Estimate.of(risks[:, best])
    here = curve.iloc[(curve["alpha"] - alpha).abs().argmin()]
    statuses = [Status(rows[best]["status"]) for rows in datasets]
    worst = Status.worst([*statuses, Status(here["status"])])
    rate, rate_status = exchange_rate(curve, alpha, overlap)
    return LabelPoint(
        alpha=alpha,
        overlap=overlap.value,
        overlap_error=overlap.error,
        widest_overlap=float(overlaps[:, widest].mean()),
        risk=risk.value,
        risk_error=risk.error,
        ridge_k=datasets[0][best]["ridge_k"],
        ridge_v=datasets[0][best]["ridge_v"],
        y_overlap=float(here["overlap"]),
        y_risk=float(here["risk"]),
        worth=rate.value,
        worth_error=rate.error,
        worth_status=str(rate_status),
        widest_worth=same_overlap(curve, float(overlaps[:, widest].mean())) / alpha,
        status=str(Status.SAMPLED if worst is Status.CONVERGED else worst),
    )

r"""Activations side by side, on one setting or on every combination of several.

One function covers single comparisons and curves: lists of tasks, activations and ``alpha`` give
one row for each combination, with the Bayes risk of the same setting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.atlas.activation_plot import AXES, draw_risks
from slrlab.experiments.atlas.compared import Compared as Compared
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, Activation, make_activation
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import bayes_optimal
from slrlab.theory.erm import erm_theory, optimal_ridge
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.minimal import minimal_risk

STANDARD = ("softmax", "linear", "erf", "softplus")
SETTING = ("task", "signal", "length", "noise", "alpha")

Kind: TypeAlias = Activation | str
Point: TypeAlias = tuple[Task, "Kind | None", float, "dict[str, Any]"]
"""A task, an activation (None for the best predictor), ``alpha`` and options of the training."""


@dataclass(frozen=True)
class ActivationComparison(Result):
    """Activations beside each other and the best predictor; the status is the worst of all.

    Attributes
    ----------
    rows
        One `Compared` for each task, ``alpha`` and activation, in this order.
    """

    rows: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return status and rows as JSON-ready values."""
        return {"status": str(self.status), "rows": [row.to_dict() for row in self.rows]}

    def to_frame(self) -> DataFrame:
        """Return one row for each task, ``alpha`` and activation."""
        import pandas as pd

        frame = pd.DataFrame([row.to_dict() for row in self.rows])
        numbers = frame.columns.difference(["task", "length", "activation", "status"])
        return frame.astype(dict.fromkeys(numbers, float))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people: what differs, and numbers rounded to their errors."""
        varied = self._varied
        trained = any(math.isfinite(row.alpha) for row in self.rows)
        columns = [*varied, "activation", "risk", "Bayes", "excess"]
        columns += ["ridges", "status"] if trained else ["status"]
        texts = []
        for row in self.rows:
            given = row.to_dict()
            text = [_short(given.get(name, "")) for name in (*varied, "activation")]
            text += [_rounded(row.risk) + _between(row), _rounded(row.bayes_risk)]
            text += [_value(row.excess)]  # its error is that of the risk
            if trained:
                ridges = [given[name] for name in ("ridge_k", "ridge_v") if name in given]
                text += [", ".join(f"{ridge:.3g}" for ridge in ridges)]
            texts.append([*text, given["status"]])
        return columns, texts

    def __str__(self) -> str:
        given, varied = self.rows[0].to_dict(), self._varied
        hidden = {"task", *varied} | ({"noise"} if given["noise"] == 0.0 else set())
        parts = [f"{name} {_short(given[name])}" for name in SETTING if name not in hidden]
        task = "several tasks" if "task" in varied else f"{given['task']}-SLR"
        return ", ".join([task, *parts]).replace("alpha inf", "infinite data")

    @property
    def _varied(self) -> list[str]:
        """Names of the settings that differ between rows."""
        whole = [row.to_dict() for row in self.rows]
        own = (name for row in self.rows for name in row.setting.task.parameters)
        names = dict.fromkeys((*SETTING, *own))
        return [name for name in names if len({str(row.get(name)) for row in whole}) > 1]

    def summary(self) -> str:
        """Return the setting and a line for each activation, rounded to the errors."""
        columns, texts = self.table()
        widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in (columns, *texts)
        ]
        return "\n".join([str(self), *lines])

    def plot(self, ax: Axes | None = None, *, x: str | None = None) -> Axes:
        """Draw the risks against a setting, a curve for each activation, with the Bayes risk.

        ``x`` is alpha, signal, length (its mean), noise or activation; by default the first of
        them that varies. The legend names the other settings that vary.

        Raises
        ------
        ValueError
            If ``x`` is none of these.
        """
        varied = self._varied
        default = next((name for name in AXES if name in varied), "activation")
        chosen, axes = _checks.choice(x or default, "x", AXES), axes_of(ax)
        draw_risks(axes, chosen, self.rows, varied, str(self))
        return axes


def compare(
    task: Task | Sequence[Task],
    activations: Kind | Sequence[Kind] = STANDARD,
    *,
    alpha: float | Sequence[float] = math.inf,
    ridge_k: float | None = None,
    ridge_v: float | None = None,
    tolerance: float = 1e-3,
    seed: int = 0,
    workers: int | None = 1,
    strict: bool = False,
    report: Report | None = None,
) -> ActivationComparison:
    r"""Compare activations with each other and with the best predictor.

    Every combination of tasks, ``alpha`` and activations is a row, so lists give curves:
    ``compare([SpikedSLR(nu, 3) for nu in (1, 2, 4)], ["softmax", "linear"])``.

    Parameters
    ----------
    task
        A task, or several.
    activations
        Names, expressions or activations; or one.
    alpha
        Samples per dimension ``> 0``, or several. ``inf`` is the population: least risk over all
        keys and values. A finite number is attention trained on ``N = αD`` samples.
    ridge_k, ridge_v
        Ridges of the training; both left out for those of least test risk.
    tolerance, seed
        Accuracy of the test risk after training, and seed of its sample.
    workers
        Processes; None for as many as there are cores. More than one needs activations by name.
    strict
        Raise `slrlab.ComputationError` if a row does not reach its accuracy.
    report
        Called as ``report(done, total, label)`` while it runs.

    Returns
    -------
    ActivationComparison
        A row for each task, ``alpha`` and activation, with the Bayes risk beside each.

    Raises
    ------
    ValueError, TypeError
        If a list is empty or has another type, an activation is unknown or an object with several
        workers, a number is out of range, or only one ridge is given. Nothing is computed then.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare
    >>> table = compare(SpikedSLR(signal=9.0, length=10), ["softmax", "linear"]).to_frame()
    >>> table[["activation", "risk", "bayes_risk", "excess"]].round(4).values.tolist()
    [['softmax', 0.1426, 0.1426, 0.0], ['linear', 0.4972, 0.1426, 0.3546]]
    """
    tasks = several(task, Task, "task", "a Task such as SpikedSLR(signal=2.0, length=3)")
    kinds = several(activations, (Activation, str), "activations", "names or activations")
    kinds = [portable(kind, workers) for kind in kinds]
    alphas = [
        _checks.positive(value, "alpha", finite=False)
        for value in several(alpha, (int, float), "alpha", "numbers > 0")
    ]
    options = training_options(ridge_k, ridge_v, tolerance, seed, alphas)
    settings = list(itertools.product(tasks, alphas))
    points: list[Point] = [(one, None, value, {}) for one, value in settings]
    points += [(one, kind, value, options) for one, value in settings for kind in kinds]
    risks = parallel_map(_point, points, label="comparison", report=report, workers=workers)
    best, rest = risks[: len(settings)], iter(risks[len(settings) :])
    rows = tuple(Compared(next(rest), bayes) for bayes in best for _ in kinds)
    result = ActivationComparison(status=Status.worst(row.status for row in rows), rows=rows)
    return result.require() if strict else result


def _point(point: Point) -> Any:
    """Compute one risk: of the best predictor, with infinite data, or after training."""
    task, activation, alpha, options = point
    if math.isinf(alpha):
        return bayes_risk(task) if activation is None else minimal_risk(task, activation)
    if activation is None:
        with suppress(ValueError):  # sequences too long for it
            return bayes_optimal(task, alpha=alpha)
        return None
    train = erm_theory if "ridge_k" in options else optimal_ridge
    return train(task, activation, alpha=alpha, **options)


def _between(row: Compared) -> str:
    """Return the interval of a risk whose theory is unstable, as text."""
    low, high = row.interval
    if row.status is not Status.UNSTABLE or high - low < row.risk.error:
        return ""
    return f" [{', '.join(_value(Estimate(end, row.risk.error)) for end in (low, high))}]"


def several(given: Any, kind: Any, name: str, accepted: str) -> list[Any]:
    """Return one or several values as a list, each of the right kind."""
    single = isinstance(given, kind) or not hasattr(given, "__iter__")
    values = [given] if single else list(given)
    if not values:
        raise ValueError(f"{name} must be {accepted}, got an empty list")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} must be {accepted}, got {value!r}")
    return values


def portable(kind: Kind, workers: int | None) -> Kind:
    """Return an activation, by its name if it is one that every process knows."""
    activation = make_activation(kind)
    if ACTIVATIONS.get(activation.name) is activation:
        return activation.name
    if workers != 1 and isinstance(kind, Activation):
        raise ValueError(f"activations must be names with several workers, got {kind.name}")
    return kind


def training_options(
    ridge_k: float | None, ridge_v: float | None, tolerance: float, seed: int, alphas: list[float]
) -> dict[str, Any]:
    """Return the arguments of the theory of training, checked."""
    options: dict[str, Any] = {"tolerance": _checks.positive(tolerance, "tolerance")}
    options["seed"] = _checks.integer(seed, "seed", low=0)
    if ridge_k is None and ridge_v is None:
        return options
    if ridge_k is None or ridge_v is None:
        missing = "ridge_k" if ridge_k is None else "ridge_v"
        raise ValueError(f"{missing} must be a finite number >= 0 beside the other, got None")
    if all(map(math.isinf, alphas)):
        raise ValueError("alpha must be a finite number > 0 for a training with ridges, got inf")
    ridges = {"ridge_k": ridge_k, "ridge_v": ridge_v}
    return options | {name: _checks.non_negative(r, name) for name, r in ridges.items()}


def _rounded(number: Estimate) -> str:
    """Return a number rounded to its error, or to six digits if it is known better."""
    if abs(number.value) <= 10.0 * number.error < 1e-6:
        return "0"
    return f"{number.value:.6g}" if number.error <= 1e-6 * abs(number.value) else str(number)


def _value(number: Estimate) -> str:
    return _rounded(number).partition(" ±")[0]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

r"""Activations side by side, on one setting or on every combination of several.

One function covers single comparisons and curves: lists of tasks, activations and numbers of
samples give one row for each combination, with the Bayes risk of the same setting beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from slrlab import _checks
from slrlab._plot import BAYES, axes_of, log_scale, mark_of, mark_statuses
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, Activation, make_activation
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import BayesOptimal, bayes_optimal
from slrlab.theory.erm import ErmTheory, erm_theory, optimal_ridge
from slrlab.theory.population.bayes_risk import BayesRisk, bayes_risk
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STANDARD = ("softmax", "linear", "erf", "softplus")
SETTING = ("task", "signal", "length", "noise", "alpha")
_FLAT = 20.0  # ratio of the largest to the smallest risk up to which the axis is not logarithmic

Kind: TypeAlias = Activation | str
Point: TypeAlias = tuple[Task, "Kind | None", float, "dict[str, Any]"]
"""A task, an activation (None for the best predictor), ``alpha`` and options of the training."""


@dataclass(frozen=True)
class Compared:
    """One activation on one setting, beside the best predictor there.

    Attributes
    ----------
    found
        Minimal risk with infinite data, or the theory of training on ``N = αD`` samples.
    bayes
        The Bayes risk with as many data; None where it is not known for such a task.
    """

    found: PopulationRisk | ErmTheory
    bayes: BayesRisk | BayesOptimal | None

    @property
    def alpha(self) -> float:
        """Training sequences per dimension; ``inf`` for infinite data."""
        return self.found.setting.alpha

    @property
    def risk(self) -> Estimate:
        """Risk on new data with its error."""
        if isinstance(self.found, ErmTheory):
            return self.found.risk
        return Estimate(self.found.risk, self.found.error)

    @property
    def bayes_risk(self) -> Estimate:
        """Least risk of any predictor from as many data; nan if it is not known."""
        if self.bayes is None:
            return Estimate(math.nan, math.nan)
        best = self.bayes
        value = best.risk_it if isinstance(best, BayesOptimal) else best.risk
        return Estimate(value, best.error)

    @property
    def excess(self) -> Estimate:
        """Risk above the Bayes risk."""
        risk, best = self.risk, self.bayes_risk
        return Estimate(risk.value - best.value, math.hypot(risk.error, best.error))

    def to_dict(self) -> dict[str, Any]:
        """Return setting, risks and status as JSON-ready values."""
        found = self.found
        row: dict[str, Any] = found.setting.to_dict() | {"alpha": self.alpha}
        row |= {"risk": self.risk.value, "error": self.risk.error}
        row |= {"bayes_risk": self.bayes_risk.value, "excess": self.excess.value}
        if isinstance(self.bayes, BayesOptimal):
            row |= {"amp_risk": self.bayes.risk_amp}
        if isinstance(found, ErmTheory):
            row |= {"risk_low": found.test_risk_low, "risk_high": found.test_risk_high}
        row |= {"m_k": found.m_k, "m_v": found.m_v, "bias": found.bias}
        return {name: plain(value) for name, value in row.items()} | {"status": str(found.status)}


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

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each task, ``alpha`` and activation."""
        import pandas as pd

        frame = pd.DataFrame([row.to_dict() for row in self.rows])
        numbers = frame.columns.difference(["task", "length", "activation", "status"])
        return frame.astype(dict.fromkeys(numbers, float))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people: what differs, and numbers rounded to their errors."""
        whole = [row.to_dict() for row in self.rows]
        varied = self._varied
        trained = any("ridge_k" in row for row in whole)
        columns = [*varied, "activation", "risk", "Bayes", "excess"]
        columns += ["ridges", "status"] if trained else ["status"]
        texts = []
        for row, given in zip(self.rows, whole, strict=True):
            text = [_short(given[name]) for name in (*varied, "activation")]
            text += [_rounded(row.risk) + _between(row), _rounded(row.bayes_risk)]
            text += [_rounded(row.excess).partition(" ±")[0]]  # its error is that of the risk
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
        return [name for name in SETTING if len({str(row[name]) for row in whole}) > 1]

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
        them that varies. What is left to vary tells curves of one activation apart.

        Raises
        ------
        ValueError
            If ``x`` is none of these.
        """
        whole = [row.to_dict() for row in self.rows]
        varied = self._varied
        choices = [name for name in ("alpha", *SETTING[1:-1]) if name in varied]
        chosen = x or next(iter(choices), "activation")
        _checks.choice(chosen, "x", ["alpha", "signal", "length", "noise", "activation"])
        axes = axes_of(ax)
        others = [name for name in varied if name != chosen]
        groups: dict[tuple[str, ...], list[Compared]] = {}
        for row, given in zip(self.rows, whole, strict=True):
            same = () if chosen == "activation" else (row.found.setting.activation_name,)
            groups.setdefault((*(str(given[name]) for name in others), *same), []).append(row)
        wheres: list[str] = []
        for key, rows in groups.items():
            where = ", ".join(f"{name} {item}" for name, item in zip(others, key, strict=False))
            wheres += [where] if where not in wheres else []
            strength = 0.6 ** wheres.index(where)  # curves of one activation: ever paler
            _draw_curve(axes, chosen, rows, f" ({where})" if where else "", strength)
        risks = [row.risk.value for row in self.rows if row.risk.value > 0.0]
        if risks and max(risks) > _FLAT * min(risks):
            axes.set_yscale("log")
        axes.set(xlabel=_AXES[chosen], ylabel="risk", title=str(self))
        axes.legend()
        return axes


_AXES = {
    "alpha": "samples per dimension $\\alpha$",
    "signal": "signal $\\nu$",
    "length": "mean length",
    "noise": "label noise $\\Delta$",
    "activation": "",
}


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

    Every combination of the tasks, the numbers of samples and the activations is a row, so that
    lists give curves: ``compare([SpikedSLR(nu, 3) for nu in (1, 2, 4)], ["softmax", "linear"])``.

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
        Accuracy asked of the test risk after training, and seed of its sample.
    workers
        Processes; None for as many as there are cores. More than one needs activations by name.
    strict
        Raise `slrlab.ComputationError` if a row does not reach its accuracy.
    report
        Called as ``report(done, total, label)`` while it runs.

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong, before any work.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare
    >>> found = compare(SpikedSLR(signal=9.0, length=10), ["softmax", "linear"])
    >>> found.to_frame()[["activation", "risk", "bayes_risk", "excess"]].round(4).values.tolist()
    [['softmax', 0.1426, 0.1426, 0.0], ['linear', 0.4972, 0.1426, 0.3546]]
    """
    tasks = _several(task, Task, "task", "a Task such as SpikedSLR(signal=2.0, length=3)")
    kinds = _several(activations, (Activation, str), "activations", "names or activations")
    kinds = [_portable(kind, workers) for kind in kinds]
    alphas = [_alpha(value) for value in _several(alpha, (int, float), "alpha", "numbers > 0")]
    options = _options(ridge_k, ridge_v, tolerance, seed, alphas)
    settings = list(itertools.product(tasks, alphas))
    points: list[Point] = [(one, None, value, {}) for one, value in settings]
    points += [(one, kind, value, options) for one, value in settings for kind in kinds]
    found = parallel_map(_point, points, label="comparison", report=report, workers=workers)
    best, rest = found[: len(settings)], iter(found[len(settings) :])
    rows = tuple(Compared(found=next(rest), bayes=bayes) for bayes in best for _ in kinds)
    status = Status.worst(row.found.status for row in rows)
    result = ActivationComparison(status=status, rows=rows)
    return result.require() if strict else result


def _point(point: Point) -> Any:
    """Compute one risk: of the best predictor, with infinite data, or after training."""
    task, activation, alpha, options = point
    if activation is None:
        return bayes_risk(task) if math.isinf(alpha) else _bayes(task, alpha)
    if math.isinf(alpha):
        return minimal_risk(task, activation)
    train = erm_theory if "ridge_k" in options else optimal_ridge
    return train(task, activation, alpha=alpha, **options)


def _between(row: Compared) -> str:
    """Return the interval of a risk whose theory is not to be trusted."""
    low, high = _interval(row)
    if row.found.status is not Status.UNSTABLE or high - low < row.risk.error:
        return ""
    ends = (_rounded(Estimate(end, row.risk.error)).partition(" ±")[0] for end in (low, high))
    return f" [{', '.join(ends)}]"


def _bayes(task: Task, alpha: float) -> BayesOptimal | None:
    try:
        return bayes_optimal(task, alpha=alpha)
    except ValueError:  # sequences too long for it
        return None


def _several(given: Any, kind: Any, name: str, accepted: str) -> list[Any]:
    """Return one or several values as a list, each of the right kind."""
    single = isinstance(given, kind) or not hasattr(given, "__iter__")
    values = [given] if single else list(given)
    if not values:
        raise ValueError(f"{name} must be {accepted}, got an empty list")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} must be {accepted}, got {value!r}")
    return values


def _alpha(value: float) -> float:
    accepted = "a number > 0 or inf"
    return _checks.real(value, "alpha", accepted=accepted, low=0.0, open_low=True, finite=False)


def _portable(kind: Kind, workers: int | None) -> Kind:
    """Return an activation, by its name if it is one that every process knows."""
    found = make_activation(kind)
    if ACTIVATIONS.get(found.name) is found:
        return found.name
    if workers != 1 and isinstance(kind, Activation):
        raise ValueError(f"activations must be names with several workers, got {kind.name}")
    return kind


def _options(
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


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _draw_curve(axes: Axes, x: str, rows: list[Compared], where: str, strength: float) -> None:
    """Draw the risks of some rows against ``x``, and the Bayes risk beside them."""
    known = axes.get_legend_handles_labels()[1]
    if x == "activation":
        marks = [mark_of(row.found.setting.activation_name) for row in rows]
        positions: list[Any] = [mark.label for mark in marks]
        for position, mark, row in zip(positions, marks, rows, strict=True):
            look = mark.line(label="_nolegend_", linestyle="none", capsize=3, alpha=strength)
            axes.errorbar(position, row.risk.value, yerr=row.risk.error, **look)
        look = BAYES.line(label=f"Bayes{where}", alpha=strength)
        axes.axhline(rows[0].bayes_risk.value, **look)
        axes.margins(x=0.2)
    else:
        mark = mark_of(rows[0].found.setting.activation_name)
        finite = [row for row in rows if math.isfinite(_position(row, x))]
        for row in (row for row in rows if row not in finite):
            label = f"{mark.label}, {x} ∞{where}"
            look = mark.line(label=label, marker="", linestyle=":", alpha=strength)
            axes.axhline(row.risk.value, **look)
        rows = sorted(finite, key=lambda row: _position(row, x))
        positions = [_position(row, x) for row in rows]
        if f"Bayes{where}" not in known:
            best = [row.bayes_risk.value for row in rows]
            axes.plot(
                positions, best, **BAYES.line(label=f"Bayes{where}", zorder=1, alpha=strength)
            )
        look = mark.line(label=f"{mark.label}{where}", capsize=2, alpha=strength)
        values, errors = ([getattr(r.risk, part) for r in rows] for part in ("value", "error"))
        axes.errorbar(positions, values, yerr=errors, **look)
        bands = [_interval(row) for row in rows]
        if any(end > start for start, end in bands):
            low, high = ([band[side] for band in bands] for side in (0, 1))
            axes.fill_between(positions, low, high, color=mark.color, alpha=0.15, linewidth=0)
        if positions and max(positions) > 4.0 * min(positions):
            axes.set_xscale(**log_scale(positions))
    mark_statuses(axes, positions, [r.risk.value for r in rows], [r.found.status for r in rows])


def _interval(row: Compared) -> tuple[float, float]:
    """Return the range of the risk: that of the two forms of the theory after training."""
    if isinstance(row.found, ErmTheory):
        return row.found.interval
    return row.risk.value, row.risk.value


def _position(row: Compared, x: str) -> float:
    """Return where a row stands on the axis of a setting."""
    if x == "alpha":
        return row.alpha
    task = row.found.setting.task
    return task.length.mean if x == "length" else float(getattr(task, x))

r"""Length transfer: keys and values fitted at one length and used at another.

The scores may be multiplied by a factor that depends on both lengths. With infinite data softmax
needs none: its best keys, those of the posterior, are the same at every length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab._plot import axes_of, draw_map, mark_statuses
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Report
from slrlab.experiments.atlas.activations import Kind, portable, several, training_options
from slrlab.experiments.fitted_vectors import FittedVectors, fit_vectors
from slrlab.experiments.running.encoding import storable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import Activation, make_activation
from slrlab.model.arrangements import check_family
from slrlab.model.families import LengthScaled
from slrlab.model.lengths import LengthLaw
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.population.bayes_risk import bayes_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RULES = ("constant", "sqrt-log", "log", "best")
"""Rules for the factor of the scores."""

_Item = tuple[Task, Kind, float, dict[str, Any], tuple[int, ...], tuple[str, ...]]


@dataclass(frozen=True)
class TransferPoint(Result):
    """Vectors fitted at one length and used at another.

    Attributes
    ----------
    rule, factor
        Rule for the factor that multiplies the scores, and its value.
    fit, use
        The two lengths.
    risk, error
        Risk at the length of use, and its numerical error. After training the error includes the
        standard errors of the order parameters, at the ridges of ``setting``.
    refitted_risk, refitted_error
        Risk of vectors fitted at the length of use with as many data; nan if not computed.
    bayes_risk
        Bayes risk at the length of use (infinite data).
    m_k, m_v, q_k, q_v, bias
        Order parameters of the fitted vectors, before the factor, and the bias.
    note
        Why there is no number; else empty.
    setting
        Task at the length of the fit, activation, ``alpha`` and ridges.
    """

    rule: str
    fit: int
    use: int
    factor: float
    risk: float
    error: float
    refitted_risk: float
    refitted_error: float
    bayes_risk: float
    m_k: float
    m_v: float
    q_k: float
    q_v: float
    bias: float
    note: str
    setting: Setting

    _sharing_error: ClassVar[tuple[str, ...]] = ("risk",)

    @property
    def loss(self) -> float:
        """Part of the attainable gain that is missed; above 1: worse than the prediction 0."""
        return self._loss(self.risk)

    @property
    def refitted_loss(self) -> float:
        """The same for vectors fitted at the length of use."""
        return self._loss(self.refitted_risk)

    def _loss(self, risk: float) -> float:
        return (risk - self.bayes_risk) / (self.setting.task.trivial_risk - self.bayes_risk)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and losses as JSON-ready values; ``fit`` replaces the length."""
        values = super().to_dict()
        del values["length"]
        return values | {"loss": plain(self.loss), "refitted_loss": plain(self.refitted_loss)}


storable(Status, LengthLaw, Setting, TransferPoint)


@dataclass(frozen=True)
class LengthTransfer(Result):
    """Vectors fitted at some lengths and used at others; the status is the worst of all.

    Attributes
    ----------
    points
        One `TransferPoint` for each rule, length of the fit and length of use, in this order.
    """

    points: tuple[TransferPoint, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each rule and pair of lengths."""
        import pandas as pd

        frame = pd.DataFrame([point.to_dict() for point in self.points])
        texts = ["status", "rule", "note", "task", "activation"]
        return frame.astype(dict.fromkeys(frame.columns.difference([*texts, "fit", "use"]), float))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people; the rule only if there are several."""
        several_rules = len({point.rule for point in self.points}) > 1
        columns = ["rule", "fit", "use", "factor", "risk", "refitted", "Bayes", "loss", "status"]
        rows = [
            [
                *(point.rule, str(point.fit), str(point.use), f"{point.factor:.4g}"),
                _rounded(point.risk, point.error),
                _rounded(point.refitted_risk, point.refitted_error),
                f"{point.bayes_risk:.4g}",
                "0" if abs(point.loss) < 1e-9 else f"{point.loss:.3g}",
                f"{point.status}: {point.note}" if point.note else str(point.status),
            ]
            for point in self.points
        ]
        first = 0 if several_rules else 1
        return columns[first:], [row[first:] for row in rows]

    def __str__(self) -> str:
        setting = self.points[0].setting
        task, data = setting.task, f"alpha {setting.alpha:g}"
        noise = f", noise {task.noise:g}" if task.noise else ""
        data = "infinite data" if math.isinf(setting.alpha) else data
        name = setting.activation_name
        rules = ", ".join(dict.fromkeys(point.rule for point in self.points))
        return f"{name} on {task.name}-SLR, signal {task.signal:g}{noise}, {data}, factor {rules}"

    def plot(self, ax: Axes | None = None, *, rule: str | None = None) -> Axes:
        """Draw the loss: a map over both lengths, or curves if there is one length of the fit.

        ``rule`` is the rule of the map, by default the first; curves are drawn for all rules.

        Raises
        ------
        ValueError
            If the result has no points of this rule.
        """
        axes, frame = axes_of(ax), self.to_frame()
        axes.set(title=str(self), xlabel="length of use", xscale="log")
        if frame["fit"].nunique() == 1:
            self._curves(axes, frame if rule is None else frame[frame["rule"] == rule])
            return axes
        rules = list(dict.fromkeys(frame["rule"]))
        frame = frame[frame["rule"] == _checks.choice(rule or rules[0], "rule", rules)]
        grid = frame.pivot(index="fit", columns="use", values="loss")
        draw_map(axes, grid.columns, grid.index, grid.to_numpy(), "loss")
        mark_statuses(axes, frame["use"], frame["fit"], frame["status"])
        axes.set(ylabel="length of the fit", yscale="log")
        return axes

    def _curves(self, axes: Axes, frame: pd.DataFrame) -> None:
        for name, part in frame.groupby("rule", sort=False):
            axes.errorbar(part["use"], part["loss"], part["error"], marker="o", label=name)
            mark_statuses(axes, part["use"], part["loss"], part["status"])
        axes.plot(part["use"], part["refitted_loss"], color="0.6", linestyle=":", label="refitted")
        axes.axvline(float(frame["fit"].iloc[0]), color="0.8", zorder=0)
        axes.set_ylabel("loss")
        axes.legend()


def length_transfer(
    task: Task,
    activation: Kind = "softmax",
    *,
    fit: int | Sequence[int] = (2, 10, 100),
    use: int | Sequence[int] = (2, 10, 100, 1000),
    rule: str | Sequence[str] = "constant",
    alpha: float = math.inf,
    ridge_k: float | None = None,
    ridge_v: float | None = None,
    refit: bool = True,
    tolerance: float = 1e-3,
    seed: int = 0,
    workers: int | None = 1,
    strict: bool = False,
    report: Report | None = None,
) -> LengthTransfer:
    r"""Return the risk of vectors fitted at one length and used at another.

    Fitted vectors have order parameters ``m_k, m_v, q_k, q_v``. At the length of use their risk is
    ``Δ² + 1 − 2 m_v E σ_ε + q_v E‖σ‖²``, with the scores multiplied by the factor of the rule. The
    bias is not multiplied. An activation that sees the length (`LengthScaled`) sees that of use.

    Parameters
    ----------
    task, activation
        As for `slrlab.minimal_risk`; ``fit`` and ``use`` replace the length of the task.
    fit, use
        Lengths of the fit and of use: whole numbers ``>= 2``, one or several each.
    rule
        Factor of the scores, or several: ``constant`` (1), ``sqrt-log``
        (``√(log use/log fit)``), ``log`` (``log use/log fit``, as in SSMax), or ``best``, the one
        between 1/16 and 16 of least risk at the length of use.
    alpha
        Samples per dimension; ``inf``: the vectors of least risk. A finite number is training on
        ``N = αD`` sequences.
    ridge_k, ridge_v
        Ridges of the training; both left out for those of least test risk at the length of the fit.
    refit
        Also fit at the lengths of use, with as many data. Training on long sequences takes time.
    tolerance, seed, workers, strict, report
        As for `slrlab.compare`.

    Returns
    -------
    LengthTransfer
        A point for each pair of lengths: the risk, and the least one at the length of use.

    Raises
    ------
    ValueError, TypeError
        If the task is of no known family or its optimal keys are infinite, a length is below 2, a
        rule is unknown, or only one ridge is given. Nothing is computed then.

    Examples
    --------
    >>> from slrlab import SpikedSLR, length_transfer
    >>> task = SpikedSLR(signal=9.0, length=10)
    >>> for name in ("softmax", "ssmax"):
    ...     (point,) = length_transfer(task, name, fit=10, use=1000).points
    ...     print(f"{name}: risk {point.risk:.4f}, Bayes risk {point.bayes_risk:.4f}")
    softmax: risk 0.7327, Bayes risk 0.7327
    ssmax: risk 0.9452, Bayes risk 0.7327
    """
    if not isinstance(task, Task):
        _checks.fail("task", "a Task such as SpikedSLR(signal=2.0, length=3)", task, TypeError)
    check_family(task)
    if task.has_infinite_score:
        _checks.fail("signal", "finite: else the best keys are infinite", task.signal)
    fits, uses = _lengths(fit, "fit"), _lengths(use, "use")
    rules = several(rule, str, "rule", f"one of {', '.join(RULES)}")
    rules = list(dict.fromkeys(_checks.choice(one, "rule", RULES) for one in rules))
    alpha = _checks.positive(alpha, "alpha", finite=False)
    options = training_options(ridge_k, ridge_v, tolerance, seed, [alpha])
    kind = portable(activation, workers)
    if math.isfinite(alpha):
        _check_trainable(make_activation(kind))
    lengths = sorted({*fits, *uses} if refit else fits, reverse=True)  # costly ones first
    items: list[_Item] = [
        (
            *(replace(task, length=LengthLaw.of(length)), kind, alpha, options),
            *(tuple(uses) if length in fits else (), tuple(rules)),
        )
        for length in lengths
    ]
    results = parallel_map(_from_length, items, label="transfer", report=report, workers=workers)
    own = {length: (risk, error) for length, (risk, error, _) in zip(lengths, results, strict=True)}
    unknown = (math.nan, math.nan)
    points = [
        replace(point, refitted_risk=risk, refitted_error=error)
        for *_, part in results
        for point in part
        for risk, error in [own.get(point.use, unknown)]
    ]
    points.sort(key=lambda point: (RULES.index(point.rule), point.fit, point.use))
    status = Status.worst(point.status for point in points)
    result = LengthTransfer(status=status, points=tuple(points))
    return result.require() if strict else result


def _lengths(given: Any, name: str) -> list[int]:
    """Return lengths, each once, from the shortest to the longest."""
    values = several(given, (int, float), name, "whole numbers >= 2")
    return sorted({_checks.integer(value, name, low=2) for value in values})


def _check_trainable(activation: Activation) -> None:
    """Refuse an activation that the theory of training does not have."""
    activation_code(activation.base if isinstance(activation, LengthScaled) else activation)


def _from_length(item: _Item) -> tuple[float, float, tuple[TransferPoint, ...]]:
    """Return risk and error of vectors fitted at one length, and their points elsewhere."""
    task, kind, alpha, options, uses, rules = item
    vectors = fit_vectors(task, make_activation(kind), alpha, options)
    points = [_point(vectors, length, rule) for length in uses for rule in rules]
    return vectors.risk, vectors.error, tuple(points)


def _point(vectors: FittedVectors, use: int, rule: str) -> TransferPoint:
    there = replace(vectors.setting.task, length=LengthLaw.of(use))
    fit = vectors.setting.task.length.longest
    given: dict[str, Any] = {"status": vectors.status, "note": ""}
    given |= dict.fromkeys(("factor", "risk", "error"), math.nan)
    if vectors.status.usable:
        try:
            given["factor"], how = _factor(vectors, there, rule, fit, use)
            given["risk"], given["error"], accuracy = vectors.risk_at(there, given["factor"])
            given["status"] = Status.worst([vectors.status, how, accuracy])
        except ComputationError as problem:
            given |= {"status": Status.FAILED, "note": str(problem)}
    overlaps = {name: getattr(vectors, name) for name in ("m_k", "m_v", "q_k", "q_v", "bias")}
    return TransferPoint(
        rule=rule,
        fit=fit,
        use=use,
        refitted_risk=math.nan,
        refitted_error=math.nan,
        bayes_risk=bayes_risk(there).risk,
        setting=vectors.setting,
        **given,
        **overlaps,
    )


def _factor(
    vectors: FittedVectors, task: Task, rule: str, fit: int, use: int
) -> tuple[float, Status]:
    """Return the factor of the scores by a rule, and how it was found."""
    if rule == "best":
        return vectors.best_factor(task)
    ratio = math.log(use) / math.log(fit)
    factors = {"constant": 1.0, "sqrt-log": math.sqrt(ratio), "log": ratio}
    return factors[rule], Status.CONVERGED


def _rounded(risk: float, error: float) -> str:
    return f"{risk:.4g}" if not error > 1e-5 * abs(risk) else str(Estimate(risk, error))

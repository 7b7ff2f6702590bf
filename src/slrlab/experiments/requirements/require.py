"""What a demand on the risk or the hit rate requires: signal, alpha, activations that can.

The risk falls as the signal or alpha grows, so the least one that meets a demand
is a root. Every answer is evaluated once more, and its risk is part of the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from slrlab import _checks
from slrlab._plot import BAYES, axes_of, log_scale, mark_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.atlas.activations import STANDARD, Kind, portable, several
from slrlab.experiments.requirements.demands import BAYES_NAME, Demand, Search, least_meeting
from slrlab.experiments.running.encoding import storable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import Activation
from slrlab.model.lengths import LengthLike
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task

_SIGNALS = (1e-6, 4.0, 1e9)  # least, first and largest that are tried
_ALPHAS = (0.05, 2.0, 1e4)  # samples per dimension, likewise
_FINE, _COARSE = 1e-7, 0.02  # accuracy of the log of a signal, and where training is solved

_Item: TypeAlias = tuple[Task, "Kind | None", float, "float | None", Demand, float]


@dataclass(frozen=True)
class Need(Result):
    """What one activation needs for a demand; ``Bayes`` is the best predictor.

    Attributes
    ----------
    activation
        Its name.
    length
        Length of the sequences, or the label of their law.
    signal, alpha
        The one that was asked for is the least that meets the demand, nan if none does; the other
        one was given.
    value, error
        Risk or hit rate at the answer; if nothing meets the demand, the best possible; nan if
        that could not be computed.
    possible
        Whether the demand can be met.
    note
        Why not, in a sentence.
    """

    activation: str
    length: str
    signal: float
    alpha: float
    value: float
    error: float
    possible: bool
    note: str

    _sharing_error: ClassVar[tuple[str, ...]] = ("value",)


storable(Need)


@dataclass(frozen=True)
class Requirement(Result):
    """What a demand requires of each activation; the status is the worst of all.

    Attributes
    ----------
    quantity, target
        ``risk`` or ``hit_rate``, and its bound.
    unknown
        What was asked for: ``signal`` or ``alpha``.
    needs
        A `Need` for each length, ``signal`` or ``alpha`` that was given, and activation.
    """

    quantity: str
    target: float
    unknown: str
    needs: tuple[Need, ...]

    @property
    def possible(self) -> bool:
        """Whether any of the activations, the best predictor aside, meets the demand."""
        return any(need.possible for need in self.needs if need.activation != BAYES_NAME)

    def to_frame(self) -> DataFrame:
        """Return one row for each need."""
        import pandas as pd

        return pd.DataFrame([vars(need) for need in self.needs])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people."""
        columns = ["length", "activation", "signal", "alpha", self.quantity, "note"]
        rows = [
            [
                *(need.length, need.activation),
                *(_shown(getattr(need, name)) for name in ("signal", "alpha")),
                str(Estimate(float(f"{need.value:.8g}"), need.error)),
                need.note,
            ]
            for need in self.needs
        ]
        return columns, rows

    def __str__(self) -> str:
        relation = "at most" if self.quantity == "risk" else "at least"
        words = self.quantity.replace("_", " ")
        return f"{self.unknown} for a {words} of {relation} {self.target:g}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what is needed against the length, or against what was given."""
        axes, frame = axes_of(ax), self.to_frame()
        given = "alpha" if self.unknown == "signal" else "signal"
        x = "length" if frame["length"].nunique() > 1 else given
        if x == "length":
            frame = frame[frame["length"].str.isdigit()].astype({"length": float})
        lone = frame[x].nunique() < 2
        for name, rows in frame[frame["possible"]].groupby("activation", sort=False):
            mark = BAYES if name == BAYES_NAME else mark_of(str(name), frame["activation"])
            where = [mark.label] * len(rows) if lone else rows[x].tolist()
            axes.plot(where, rows[self.unknown], **mark.line(label=mark.label))
        if not lone:
            axes.set_xscale(**log_scale(sorted(set(frame[x]))))
            axes.legend()
        axes.set(xlabel="" if lone else x, ylabel=f"{self.unknown} needed", yscale="log")
        axes.set_title(str(self))
        return axes


def require(
    *,
    length: LengthLike | Sequence[LengthLike],
    risk: float | None = None,
    hit_rate: float | None = None,
    task: str = "spiked",
    noise: float = 0.0,
    signal: float | Sequence[float] | None = None,
    alpha: float | Sequence[float] | None = None,
    activations: Kind | Sequence[Kind] = STANDARD,
    tolerance: float = 2e-3,
    workers: int | None = 1,
    report: Report | None = None,
) -> Requirement:
    r"""Return the least signal, or the fewest samples, that meet a demand.

    Without ``signal``, the least signal is returned: with infinite data, or for ``alpha`` samples
    per dimension. With ``signal``, the least ``alpha`` is returned. Keys, values, a free bias and
    the ridges are the best ones.

    Parameters
    ----------
    length
        Length of the sequences, or a list of several.
    risk, hit_rate
        The demand: a risk of at most, or a hit rate of at least, this number. Give one.
    task, noise
        Name of the task, and standard deviation of the label noise.
    signal, alpha
        Signal, or samples per dimension, one or several; at most one of the two is given.
    activations
        Names, expressions or activations; or one. The best predictor is always there, and with
        infinite data the hit rate is the same for all increasing activations.
    tolerance
        Standard error of the risk after training.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    Requirement
        A `Need` for each activation and length or number that was given.

    Raises
    ------
    ValueError, TypeError
        If not exactly one of ``risk`` and ``hit_rate`` is given, or both ``signal`` and ``alpha``;
        if a demand is at most the noise variance, or an activation is unknown.

    Examples
    --------
    >>> from slrlab import require
    >>> for need in require(risk=0.1, length=100, activations=["softmax", "linear"]).needs:
    ...     print(f"{need.activation}: signal {need.signal:.1f}, risk {need.value:.4f}")
    Bayes: signal 17.1, risk 0.1000
    softmax: signal 17.1, risk 0.1000
    linear: signal 899.0, risk 0.1000
    """
    demand = _demand(risk, hit_rate, noise)
    lengths = list(length) if isinstance(length, list | tuple) else [length]
    tolerance = _checks.positive(tolerance, "tolerance")
    if signal is not None and alpha is not None:
        _checks.refuse("alpha", "if signal is given", alpha)
    kinds: list[Kind | None] = [None]
    if demand.quantity == "risk" or not (signal is None and alpha is None):
        names = several(activations, (Activation, str), "activations", "names or activations")
        kinds += [portable(kind, workers) for kind in names]
    items: list[_Item] = []
    for one, nu, a in itertools.product(lengths, _given(signal, "signal"), _alphas(alpha)):
        known = make_task(task, signal=0.0 if nu is None else nu, length=one, noise=noise)
        items += [(known, kind, a, nu, demand, tolerance) for kind in kinds]
    needs = parallel_map(_need, items, label="requirement", report=report, workers=workers)
    return Requirement(
        status=Status.worst(need.status for need in needs),
        quantity=demand.quantity,
        target=demand.target,
        unknown="signal" if signal is None else "alpha",
        needs=tuple(needs),
    )


def _demand(risk: float | None, hit_rate: float | None, noise: float) -> Demand:
    if (risk is None) == (hit_rate is None):
        _checks.fail("risk", "given, or hit_rate, but not both", risk)
    if hit_rate is not None:
        accepted = "a number between 0 and 1"
        hit_rate = _checks.real(hit_rate, "hit_rate", accepted=accepted, low=0.0, high=1.0)
        if not 0.0 < hit_rate < 1.0:
            _checks.fail("hit_rate", accepted, hit_rate)
        return Demand("hit_rate", hit_rate)
    floor = _checks.non_negative(noise, "noise") ** 2
    accepted = f"a finite number > {floor:g}, the variance of the noise"
    return Demand("risk", _checks.real(risk, "risk", accepted=accepted, low=floor, open_low=True))


def _given(values: Any, name: str) -> list[float | None]:
    if values is None:
        return [None]
    numbers = several(values, (int, float), name, "numbers >= 0")
    return [_checks.non_negative(number, name) for number in numbers]


def _alphas(values: Any) -> list[float]:
    numbers = (
        [math.inf] if values is None else several(values, (int, float), "alpha", "numbers > 0")
    )
    return [_checks.positive(number, "alpha", finite=False) for number in numbers]


def _need(item: _Item) -> Need:
    """Return what one activation needs, by a root of the excess over the demand."""
    task, kind, alpha, signal, demand, tolerance = item
    search = Search(task, kind, demand, tolerance)
    if signal is None:
        at = lambda nu: search.at(nu, alpha)  # noqa: E731
        edges = (*_SIGNALS, math.inf if task.allows_infinite_signal else _SIGNALS[-1])
    else:
        at = lambda samples: search.at(signal, samples)  # noqa: E731
        edges = (*_ALPHAS, math.inf)
    accuracy = _FINE if signal is None and math.isinf(alpha) else _COARSE
    answer, value, note = least_meeting(at, edges, demand, accuracy)
    needed = {"signal": answer, "alpha": alpha}
    return Need(
        status=value.status,
        activation=search.name,
        length=str(task.length),
        **(needed if signal is None else {"signal": signal, "alpha": answer}),
        value=value.estimate.value,
        error=value.estimate.error,
        possible=not math.isnan(answer),
        note=note,
    )


def _shown(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:.5g}"

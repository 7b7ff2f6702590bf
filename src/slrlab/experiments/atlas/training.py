r"""The atlas beyond infinite data: what training reaches, where it gets stuck, how long it takes.

One small setting stands for all: spiked-SLR, signal 5, length 3. The theory of training is cheap at
small lengths, and there the activations differ by more than its error. Samples per dimension are 2,
8 and 32: with one sample per dimension some activations learn next to nothing, and for others the
search for the best ridges diverges or has large errors.

The risk of the population landscape gives the rest: whether there is a mismatched minimum, and how
long gradient flow takes from small random starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import pandas as pd

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab._result import Status
from slrlab._types import Report
from slrlab.experiments.atlas.activations import Compared, Kind, portable
from slrlab.experiments.atlas.weights import TRAINED, trained_weights
from slrlab.experiments.comparison.learning_curve import trained_curve
from slrlab.experiments.running.encoding import storable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, Activation, make_activation
from slrlab.model.families import LengthScaled
from slrlab.model.lengths import LengthLaw
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.model.traits import degree, jumps
from slrlab.theory.bayes_optimal import BayesOptimal, bayes_optimal
from slrlab.theory.erm import ErmTheory
from slrlab.theory.erm.result import ErmBranch
from slrlab.theory.landscape import gradient_flow, minimum_from
from slrlab.theory.landscape.path import start_vectors
from slrlab.theory.landscape.risk import make_landscape, start_bias
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

TASK = SpikedSLR(5.0, 3)
ALPHAS = (2.0, 8.0, 32.0)
STARTS = 5
"""Flows of each activation: from the random starts of `slrlab.gradient_flow`, seeds 0, 1, …."""
FRACTION = 0.9
"""Part of the way from the risk of the start to the least risk that ends the training time."""
TIME = 1e4
"""Time at which a flow ends."""
TOLERANCE = 2e-2
"""Largest standard error of a test risk; from here the search for ridges needs half the sample."""

NOTHING_LEARNED = "the search for the best ridges ended no lower than the prediction 0"
"""Reason of a row without a risk: other ridges may give less than the trivial one."""
WORSE = (
    "no ridge found that is better than the prediction 0: the bias is learned without a ridge, and "
    "weights that grow with it undo the ridge of the values"
)
"""Reason of a trivial risk, or a higher one, of an activation whose weights grow with its bias."""
JUMPS = (
    "weights jump where the last positive score vanishes, and the prox with them: the theory of "
    "training does not hold"
)
"""Reason of the rows of an activation whose weights jump."""

_ROUNDING = 1e-6
_SAMPLES = 1 << 12  # sequences behind the risk of a projection, which is sampled
_COARSE = 0.6  # resolution of the risk along a flow: four digits, more than its times show
_SLOW = 1e-3  # gradient below which a flow ends that has not covered the fraction
_BEYOND = 1e-3  # overshoot of the fraction, so that the time is interpolated
TEXTS = ("activation", "family", "task", "length", "status", "mismatched", "reason")
_NUMBERS = ("risk", "error", "risk_low", "risk_high", "excess")  # columns of a row that has a risk
_KEYS = ("m_k", "m_v", "q_k", "bias")
_WARNINGS = ("replicon", "trace_gap", "bistable_fraction", "stable")
COLUMNS = (
    *("activation", "family", "task", "signal", "length", "noise", "alpha"),
    *("risk", "error", "risk_low", "risk_high", "bayes_risk", "excess", "amp_risk"),
    *("ridge_k", "ridge_v", "m_k", "m_v", "q_k", "bias", *TRAINED, *_WARNINGS, "status"),
    *("mismatched", "mismatched_risk", "training_time", "slowest_time", "reached", "reason"),
)

storable(Status, LengthLaw, Setting, ErmBranch, ErmTheory, BayesOptimal)

Part = tuple[str, Kind, Task, tuple[float, ...], float]
Row = dict[str, Any]


def atlas_training(
    activations: Sequence[Kind] | None = None,
    *,
    task: Task = TASK,
    alphas: Sequence[float] = ALPHAS,
    tolerance: float = TOLERANCE,
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each activation and ``alpha``, and one for infinite data (``inf``).

    A row of a finite ``alpha`` is trained attention at its best ridges (`slrlab.optimal_ridge`):
    test risk with its error, the Bayes-optimal risk from as many samples, ridges, replicon, trace
    gap and status. What its weights do is sampled at the order parameters: ``hit_rate``,
    ``mean_weight`` (times ``m_v`` it is what is read from the relevant token), ``entropy`` and
    ``miscalibration``, as in `slrlab.weight_statistics`. The row of infinite data has the least
    risk, the same numbers of its weights and, of the risk as a function of ``(k, v)``:

    - ``mismatched``: ``exists``, ``at infinity`` or ``none``, and ``mismatched_risk``, the risk of
      the mismatched minimum or its limit;
    - ``training_time``: the time that gradient flow needs until the risk has covered 90 % of the
      way from the start to the least risk; the median over five random starts of size 0.1, and
      ``slowest_time``, the largest; ``inf`` for a flow that does not get there by time 10,000;
    - ``reached``: the number of starts whose flow gets there.

    Where a theory refuses an activation, its numbers are nan and ``reason`` says why. So it does
    where the search over ridges, which is local, ended where nothing is learned and there is no
    slope to follow, and where the weights jump. Where replica symmetry is unstable the risk is that
    of the unstable solution; where it is stable but the prox jumps, as at kinks of the activation,
    the risk is between ``risk_low`` and ``risk_high``.

    Parameters
    ----------
    task, alphas
        The setting, and samples per dimension ``> 0``.
    tolerance
        Largest standard error of the test risk; its error also counts what the search may miss.
    activations, workers, report
        As for `slrlab.experiments.atlas.panel.atlas`.

    Raises
    ------
    ValueError, TypeError
        If the task is not a `Task`, an activation is unknown, or ``alphas`` or ``tolerance`` are
        not positive.
    """
    if not isinstance(task, Task):
        _checks.fail("task", "a Task such as SpikedSLR(signal=2.0, length=3)", task, TypeError)
    given = tuple(sorted({_checks.positive(alpha, "alphas") for alpha in alphas}))
    tolerance = _checks.positive(tolerance, "tolerance")
    kinds = list(ACTIVATIONS) if activations is None else list(activations)
    by_name = {make_activation(kind).name: portable(kind, workers) for kind in kinds}
    names = list(by_name)
    # trainings take longest, most of all those at the end of the registry: they come first
    parts: list[Part] = [
        (part, by_name[name], task, given, tolerance)
        for part in ("training", "risk")
        for name in reversed(names)
    ]
    parts += [("best predictor", "", task, (alpha,), tolerance) for alpha in given]
    done = parallel_map(_compute, parts, label="atlas: training", report=report, workers=workers)
    curves, limits = done[: len(names)][::-1], done[len(names) : 2 * len(names)][::-1]
    best = dict(zip(given, done[2 * len(names) :], strict=True))
    rows = {
        name: [*_finite_rows(by_name[name], task, given, curve, best), limit]
        for name, curve, limit in zip(names, curves, limits, strict=True)
    }
    known = [(name, row) for name in names for row in rows[name][:-1] if _has_risk(row)]
    items = [(task, by_name[name], {key: row[key] for key in _KEYS}) for name, row in known]
    weights = parallel_map(_weigh, items, label="trained weights", report=report, workers=workers)
    for (_, row), statistics in zip(known, weights, strict=True):
        row |= statistics
    empty = dict.fromkeys(TEXTS, "")
    table = [empty | row for name in by_name for row in rows[name]]
    frame = pd.DataFrame(table, columns=[*COLUMNS])
    numbers = frame.columns.difference([*TEXTS, "stable"])
    return frame.astype(dict.fromkeys(numbers, float))


def _compute(part: Part) -> Any:
    """Compute one part; the text of its refusal if there is no such theory."""
    name, kind, task, alphas, tolerance = part
    if name == "best predictor":
        return _refusable(lambda: bayes_optimal(task, alpha=alphas[0]))
    if name == "training":
        if jumps(make_activation(kind)):  # no ridge helps
            return JUMPS
        return _refusable(lambda: trained_curve(task, kind, alphas, tolerance))
    return _infinite_row(kind, task)


def _has_risk(row: Row) -> bool:
    return not math.isnan(row.get("risk", math.nan))


def _weigh(item: tuple[Task, Kind, Row]) -> Row:
    """Return what trained weights do."""
    return trained_weights(*item)


def _refusable(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or the text with which it refuses its arguments."""
    try:
        return function()
    except (ComputationError, TypeError, ValueError) as refusal:
        return str(refusal)


def _finite_rows(
    kind: Kind,
    task: Task,
    alphas: Sequence[float],
    curve: list[ErmTheory] | str,
    best: dict[float, BayesOptimal | str],
) -> list[Row]:
    """Return the rows of trained attention, or rows without numbers."""
    known = _known(kind)
    if isinstance(curve, str):
        setting = Setting(task).to_dict() | known
        return [setting | {"alpha": alpha, "reason": curve} for alpha in alphas]
    rows = []
    for theory in sorted(curve, key=lambda one: one.setting.alpha):
        bayes = best[theory.setting.alpha]
        row = Compared(theory, None if isinstance(bayes, str) else bayes).to_dict()
        row |= known | {key: getattr(theory, key) for key in (*_WARNINGS, "q_k")}
        # where nothing is learned the slope is 0, and a search that starts there stays
        nothing = theory.test_risk + theory.test_risk_error >= task.trivial_risk - _ROUNDING
        reason = _doubt(theory)
        if nothing and _grows_with_bias(make_activation(kind)):
            reason = reason or WORSE
        elif nothing:
            row |= dict.fromkeys(_NUMBERS, math.nan) | {"status": str(Status.NOT_CONVERGED)}
            reason = NOTHING_LEARNED
        rows.append(row | {"reason": reason})
    return rows


def _grows_with_bias(activation: Activation) -> bool:
    """Return whether the weights are unbounded in the learned bias."""
    return activation.bias is None and (degree(activation) or 0.0) > 0.0


def _doubt(theory: ErmTheory) -> str:
    """Return why a number of the theory is not to be trusted, if it is not."""
    alpha = f"at α = {theory.setting.alpha:g}"
    if theory.status is Status.UNSTABLE:
        if theory.replicon < 1.0:
            risks = f"{theory.test_risk_low:.3f} and {theory.test_risk_high:.3f}"
            return f"the prox jumps {alpha} (trace gap {theory.trace_gap:.2g}): between {risks}"
        return f"replica symmetry is unstable {alpha} (replicon {theory.replicon:.2g})"
    if theory.status is Status.DIVERGED:
        return f"the equations have no solution near any start {alpha}"
    open_end = theory.status is Status.NOT_CONVERGED
    return f"the equations are not solved {alpha}" if open_end else ""


def _infinite_row(kind: Kind, task: Task) -> Row:
    """Return the row of infinite data: least risk, mismatched minimum and training time."""
    least = minimal_risk(task, kind)
    row = Compared(least, bayes_risk(task)).to_dict() | _known(kind)
    row |= trained_weights(task, kind, least)
    columns = _refusable(lambda: _mismatched(kind, task) | _training_times(kind, task, least))
    return row | ({"reason": columns} if isinstance(columns, str) else columns)


def _known(kind: Kind) -> Row:
    activation = make_activation(kind)
    return {"activation": activation.name, "family": activation.family}


def _mismatched(kind: Kind, task: Task) -> Row:
    options: Row = {"curvatures": False, "resolution": 0.8, "samples": _SAMPLES}
    activation = make_activation(kind)
    if isinstance(activation, LengthScaled) and len(task.length.lengths) == 1:
        activation = activation.at_length(task.length.longest)  # the same up to the size of vectors
    minimum = minimum_from(task, activation, "mismatched", **options)
    if minimum is None:
        return {"mismatched": "none", "mismatched_risk": math.nan}
    where = "at infinity" if minimum.at_infinity else "exists"
    return {"mismatched": where, "mismatched_risk": minimum.risk}


def _training_times(kind: Kind, task: Task, least: PopulationRisk) -> Row:
    activation = make_activation(kind).without_idle_bias()
    landscape = make_landscape(task, activation, resolution=_COARSE, samples=_SAMPLES)
    bias = start_bias(activation, None)
    times = []
    for seed in range(STARTS):
        risk = landscape(*start_vectors("random", None, seed), bias).risk
        goal = risk + (FRACTION + _BEYOND) * (least.risk - risk)
        options: Row = {"time": TIME, "tolerance": _SLOW, "goal": goal, "landscape": landscape}
        time = gradient_flow(task, kind, seed=seed, **options).time_to(FRACTION, least.risk)
        times.append(math.inf if math.isnan(time) else time)
    reached = sum(map(math.isfinite, times))
    return {"training_time": median(times), "slowest_time": max(times), "reached": reached}

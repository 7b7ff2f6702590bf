"""Diagnosis of an attention head from its scores and the true locations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import Report
from slrlab.experiments.diagnosis.fit import (
    GROUPS,
    Fit,
    LengthPrediction,
    effective_signal,
    jackknife,
    length_slope,
    signal_slope,
)
from slrlab.experiments.diagnosis.law import ScoreLaw
from slrlab.experiments.diagnosis.measured import tune
from slrlab.experiments.diagnosis.scores import HeadScores, head_scores, read_scores
from slrlab.model.activations import Activation, make_activation
from slrlab.model.measured import MeasuredTask
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED = (
    *("hit_rate", "mean_weight", "risk", "temperature", "tuned_risk"),
    *("sink_temperature", "log_sink", "sink_risk", "offset_share", "beyond"),
)
_FITTED = ("signal", "bayes_risk", "excess", "context", "bayes_context")
_AT = ("hit_rate", "risk", "bayes_risk")
_SURE = 3.0  # standard errors by which a sink must lower the risk


@dataclass(frozen=True)
class HeadDiagnosis(Result):
    """Diagnosis of a head from its scores; risks are those of reading a label of variance 1.

    Attributes
    ----------
    signal
        Effective signal: that of the spiked-SLR whose Bayes risk is that of the fitted task.
    bayes_risk
        Least risk of any weights that are functions of these scores.
    hit_rate, mean_weight, risk
        Measured, with the activation of the head: how often the largest score is the relevant
        one, the mean weight there, and ``1 − A²/B``.
    predicted_hit_rate, predicted_risk
        The same by the theory of the fitted task. They agree with the measured ones if scores are
        independent and all sequences have one law.
    excess
        ``risk − bayes_risk``: what the activation loses.
    temperature, tuned_risk
        Temperature of least risk of a softmax of these scores, and that risk.
    sink_temperature, log_sink, sink_risk
        The same with a sink ``e^{log_sink}`` beside the exponentials; ``-inf`` if none helps.
    context, bayes_context
        Largest length at which the predicted risk of the head, and the Bayes risk, is at most ½.
    offset_share
        Share of the variance of the irrelevant scores that is common to a sequence. It is removed
        before the fit if the activation is softmax, which does not see it.
    beyond
        Fraction of the relevant scores above all irrelevant ones: there the fit extrapolates.
    errors
        Standard errors by name, from a jackknife over groups of sequences.
    sequences
        Number of sequences.
    predictions
        Hit rate and risks at the other lengths that were asked for.
    law
        Map between standard normals, the scores of the task, and the scores of the head.
    setting
        The fitted task, a `MeasuredTask`, and the activation.
    """

    signal: float
    bayes_risk: float
    hit_rate: float
    predicted_hit_rate: float
    mean_weight: float
    risk: float
    predicted_risk: float
    excess: float
    temperature: float
    tuned_risk: float
    sink_temperature: float
    log_sink: float
    sink_risk: float
    context: float
    bayes_context: float
    offset_share: float
    beyond: float
    errors: dict[str, float]
    sequences: int
    predictions: tuple[LengthPrediction, ...]
    law: ScoreLaw
    setting: Setting

    @property
    def task(self) -> MeasuredTask:
        """The fitted task: all theory of the package applies to it."""
        task = self.setting.task
        assert isinstance(task, MeasuredTask)
        return task

    def estimate(self, name: str) -> Estimate:
        """Return a number with its standard error, nan if it has none."""
        return Estimate(getattr(self, name), self.errors.get(name, math.nan))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people: measured numbers beside those of the fitted task."""
        measured = {name: str(self.estimate(name)) for name in _MEASURED}
        fitted = {name: str(self.estimate(name)) for name in _FITTED}
        fitted |= {name: str(self.estimate(f"predicted_{name}")) for name in ("hit_rate", "risk")}
        for one in self.predictions:
            fitted |= {f"{name} at {one.length}": f"{getattr(one, name):.4g}" for name in _AT}
        names = list(dict.fromkeys([*measured, *fitted]))
        rows = [[name, measured.get(name, ""), fitted.get(name, "")] for name in names]
        return ["quantity", "measured", "fitted task"], rows

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        values = super().to_dict()
        return {name: value for name, value in values.items() if name != "law"}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the fitted log density ratio against the score, beside a straight line."""
        axes = axes_of(ax)
        task = self.task
        x = np.linspace(-3.0, max(3.5, task.knots[-1] + 1.0), 300)
        axes.plot(self.law.score(x), task.log_ratio(x), label="fitted")
        line = SpikedSLR(self.signal, 2).log_ratio(x)
        axes.plot(self.law.score(x), line, ":", label=f"spiked-SLR, signal {self.signal:.3g}")
        axes.set(xlabel="score", ylabel="log density ratio, relevant to irrelevant")
        axes.legend()
        return axes

    def __str__(self) -> str:
        return (
            f"{self.setting.activation_name} head, {self.sequences} sequences of length "
            f"{self.task.length}: effective signal {self.signal:.3g}, risk {self.risk:.3g} "
            f"(Bayes {self.bayes_risk:.3g}), hit rate {self.hit_rate:.3g}, {self.status}"
        )


def diagnose_scores(
    scores: Any,
    locations: Any,
    *,
    activation: Activation | str = "softmax",
    at: Iterable[int] = (),
    report: Report | None = None,
) -> HeadDiagnosis:
    r"""Diagnose an attention head from its scores and the true locations.

    The log density ratio of relevant to irrelevant scores is fitted. It defines a tilted task
    whose least risk, hit rate and largest length follow from the theory with infinite data.

    Parameters
    ----------
    scores
        Scores of the tokens before the activation, as the activation receives them: an array
        ``(sequences, tokens)`` with nan as padding at the end of rows, or a list of arrays. Tokens
        with score -inf are masked and do not count.
    locations
        Index of the relevant token of each sequence.
    activation
        Activation of the head, for what it loses: a name, an expression or an activation.
    at
        Other lengths at which hit rate and risks are predicted.
    report
        Called as ``report(done, total, label)`` while it runs.

    Returns
    -------
    HeadDiagnosis
        Status ``sampled``; ``boundary`` if more than half of the relevant scores are above all
        irrelevant ones, where the fit extrapolates.

    Raises
    ------
    ValueError, TypeError
        If scores, locations or lengths do not fit each other; the message names the sequence. If
        the bias is free.

    Examples
    --------
    >>> import numpy as np
    >>> from slrlab import SpikedSLR, diagnose_scores
    >>> scores, locations = SpikedSLR(4.0, 20).sample_scores(np.random.default_rng(0), 500, 20)
    >>> head = diagnose_scores(2.0 * scores, locations)
    >>> print(f"signal {head.signal:.0f}, temperature {head.temperature:.0f}")
    signal 4, temperature 1
    """
    return _diagnose(head_scores(scores, locations), activation, at, report)


def diagnose_file(
    path: str | Path,
    *,
    activation: Activation | str = "softmax",
    at: Iterable[int] = (),
    report: Report | None = None,
) -> HeadDiagnosis:
    """Diagnose an attention head from a file of scores and locations.

    A ``.npz`` file holds the arrays ``scores`` (sequences, tokens; nan for padding, -inf for masked
    tokens) and ``locations``. A ``.csv`` or ``.parquet`` file holds a row for each token:
    ``sequence``, ``score`` and ``relevant`` (1 for the relevant token of the sequence, else 0).
    The other parameters are those of `diagnose_scores`.

    Parameters
    ----------
    path
        The file of scores and locations.
    activation
        Activation of the head.
    at
        Lengths at which its risk is predicted.
    report
        Called with the progress.

    Returns
    -------
    HeadDiagnosis
        What `diagnose_scores` returns.

    Raises
    ------
    ValueError
        If the file is missing, of another kind, or its content does not fit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from slrlab import SpikedSLR, diagnose_file
    >>> scores, locations = SpikedSLR(4.0, 5).sample_scores(np.random.default_rng(0), 2000, 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/head.npz", scores=2.0 * scores, locations=locations)
    ...     head = diagnose_file(f"{folder}/head.npz")
    >>> print(type(head).__name__)
    HeadDiagnosis
    """
    return _diagnose(read_scores(path), activation, at, report)


def _diagnose(
    head: HeadScores, activation: Activation | str, at: Iterable[int], report: Report | None
) -> HeadDiagnosis:
    chosen = make_activation(activation)
    if chosen.bias is None:
        _checks.fail(f"bias of {chosen.name}", "a number", "free")
    lengths = [_checks.integer(length, "at", low=2) for length in at]
    whole = Fit.of(head, chosen)
    tuned, contexts = tune(head), whole.contexts()
    numbers = whole.numbers(tuned, contexts)
    parts = []
    for group in range(GROUPS):
        rest = head.without(np.arange(head.count) % GROUPS == group)
        parts.append(Fit.of(rest, chosen).numbers(tune(rest, tuned), contexts))
        if report is not None:
            report(group + 1, GROUPS, "diagnosis")
    errors = jackknife(numbers, parts)
    signal = effective_signal(whole.task, numbers["bayes_risk"])
    errors["signal"] = errors["bayes_risk"] * signal_slope(whole.task, signal)
    for name, risk in (("context", whole.own_risk), ("bayes_context", whole.least_risk)):
        there = errors.pop(f"risk_at_{name}")
        errors[name] = there * length_slope(risk, contexts[name])
        del numbers[f"risk_at_{name}"]
    if not numbers["sink_gain"] > _SURE * errors["sink_gain"]:  # within the noise of the sample
        numbers |= {"log_sink": -math.inf, "sink_risk": numbers["tuned_risk"]}
        numbers |= {"sink_temperature": numbers["temperature"]}
        errors.pop("log_sink", None)
    del numbers["sink_gain"], errors["sink_gain"]
    status = Status.BOUNDARY if whole.beyond > 0.5 else Status.SAMPLED
    return HeadDiagnosis(
        status=status,
        signal=signal,
        **numbers,
        **contexts,
        offset_share=whole.offset_share,
        beyond=whole.beyond,
        errors={name: error for name, error in errors.items() if math.isfinite(error)},
        sequences=head.count,
        predictions=tuple(whole.at_length(length, status) for length in lengths),
        law=whole.law,
        setting=Setting(replace(whole.task, signal=signal), chosen),
    )

"""The heads of trained attention models: diagnosed at one length, measured at four times it.

A hit is a sequence in which the token with the largest absolute weight is the relevant one: a map
that is not monotone need not read the token with the largest score.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slrlab.experiments.diagnosis import diagnose_scores
from slrlab.experiments.retrieval.runs import WIDTH, Run
from slrlab.model.activations import Activation, make_activation
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import MaxTask, NeedleTask, RetrievalTask
from slrlab.retrieval.training import evaluate, head_scores, head_weights

HEADS_VERSION = 3
"""Raise it when a change makes old results of heads wrong."""

HEAD_SEEDS = 2
"""Seeds whose heads are diagnosed."""

TIMES = 4
"""How much longer the sequences of the measurement are than those of the diagnosis."""

_DIAGNOSED = ("beyond", "bayes_risk", "risk", "excess", "temperature", "log_sink", "context")


def has_head(run: Run) -> bool:
    """Return whether the head of a run is diagnosed."""
    chosen = run.task in ("recall", "max") and run.width == WIDTH and run.seed < HEAD_SEEDS
    return chosen and run.model.attends


def head_task(task: str, times: int = 1) -> RetrievalTask:
    """Return the data that a head is diagnosed on, ``times`` as long.

    For a model of recall it is a needle among keys that are not asked for, so that irrelevant
    scores have a law; zeros would all have one score.
    """
    if task == "max":
        return MaxTask(items=times * MaxTask().items)
    return NeedleTask(length=times * NeedleTask().length, filler="unused")


def head_activation(model: Model, vector: Any, tokens: int) -> tuple[Activation, float]:
    """Return the activation of a head with the number that it learned, and a factor on its scores.

    The factor is that of scores among ``tokens``; it is 1 but for `ssmax`, which is softmax of
    scaled scores.
    """
    scalar = model.named(import_torch().as_tensor(vector)).get("scalar")
    if scalar is None:
        return make_activation(model.mixer), 1.0
    number = float(scalar)
    if model.mixer == "ssmax":
        return make_activation("softmax"), number * math.log(tokens)
    # a sink e^z in the denominator is the bias −z of all scores beside a sink of 1
    bias = -number if model.mixer == "softmax-sink" else number
    return make_activation(model.mixer, bias=bias), 1.0


def diagnose_head(run: Run, vector: Any, sequences: int) -> dict[str, Any]:
    """Diagnose a head at one length, predict `TIMES` that length, and measure there.

    The convolution lets a pair of recall be read at its value and at the token after it, and heads
    learn either: the location is the one of the two with more hits at the length of the diagnosis.
    The accuracies are those of the whole model on the same sequences.
    """
    model, data = run.model, {times: head_task(run.task, times) for times in (1, TIMES)}
    sizes, locations, accuracy = {}, {}, {}
    for times, task in data.items():
        drawn = {"seed": times, "sequences": sequences}
        weights, locations[times] = head_weights(model, vector, task, **drawn)
        sizes[times] = np.abs(weights[:, :-1])  # the question itself is not a candidate
        accuracy[times] = evaluate(model, vector, task, **drawn)[1]
    shifts = (0, 1) if run.task == "recall" else (0,)
    rates = [_hits(sizes[1], locations[1] + shift).mean() for shift in shifts]
    shift = shifts[int(np.argmax(rates))]
    tokens, length = sizes[1].shape[1], sizes[TIMES].shape[1]
    hits = _hits(sizes[TIMES], locations[TIMES] + shift)
    row = {"task": run.task, "mixer": run.mixer, "seed": run.seed, "shift": shift}
    row |= {"tokens": tokens, "hit_rate": max(rates), "accuracy": accuracy[1]}
    row |= {"long_tokens": length, "long_hit_rate": hits.mean()}
    row["long_hit_rate_error"] = hits.std() / math.sqrt(len(hits))
    row["long_accuracy"] = accuracy[TIMES]
    scores, _ = head_scores(model, vector, data[1], seed=1, sequences=sequences)
    activation, factor = head_activation(model, vector, scores.shape[1])
    try:
        head = diagnose_scores(
            factor * scores[:, :-1], locations[1] + shift, activation=activation, at=[length]
        )
    except ValueError as refused:  # such as one score for all tokens, which has no law to fit
        return row | {"status": "refused", "reason": str(refused)}
    row |= {"signal": head.signal, "signal_error": head.estimate("signal").error}
    row |= {name: getattr(head, name) for name in _DIAGNOSED}
    if factor != 1.0:  # it grows with the length, which the fitted head does not know
        row["context"] = math.nan
    row |= {"fitted_hit_rate": head.predicted_hit_rate}
    row |= {"predicted_hit_rate": head.predictions[0].hit_rate}
    return row | {"status": str(head.status), "reason": ""}


def _hits(sizes: Any, locations: Any) -> Any:
    """Return 1 where the largest weight is at the location; equal largest ones share a hit."""
    largest = (sizes == sizes.max(axis=1, keepdims=True)) & (sizes > 0.0)
    own = np.take_along_axis(largest, locations[:, None], axis=1)[:, 0]
    return own / np.maximum(largest.sum(axis=1), 1)

"""Ratios of the atlas: the map above is not the one that is summed below."""

from __future__ import annotations

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import LINEAR, ScalarMap
from slrlab.model.atlas.elementwise import EXP
from slrlab.model.atlas.normalised import even_power
from slrlab.model.cards import Card, enter
from slrlab.model.families import Ratio


def _log_distance(x: FloatArray) -> FloatArray:
    """Return ``log|e^x − 1|`` without overflow; ``-inf`` at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(x, 0.0) + np.log(-np.expm1(-np.abs(x))))


enter(
    Ratio(
        "softpick",
        phi=ScalarMap(
            lambda x: np.maximum(np.expm1(x), 0.0),
            lambda x: np.exp(x) * (x > 0.0),
            lambda x: np.exp(x) * (x > 0.0),
            lambda x: np.where(x > 0.0, _log_distance(x), -np.inf),
            bends=(0.0,),
        ),
        gauge=ScalarMap(
            lambda x: np.abs(np.expm1(x)),
            lambda x: np.exp(x) * np.sign(x),
            lambda x: np.exp(x) * np.sign(x),
            _log_distance,
            bends=(0.0,),
        ),
    ),
    Card(
        r"\max(e^{s_l} - 1, 0) / \sum_j \mathrm{abs}(e^{s_j} - 1)",
        "Zuhri et al. 2025, 2504.20966",
        "Without the small constant below.",
        "All scores below 0: all weights are 0. One token: 1 if its score is above 0.",
    ),
)
enter(
    Ratio(
        "l2-softmax",
        phi=EXP,
        gauge=ScalarMap(
            lambda x: np.exp(2.0 * x),
            lambda x: 2.0 * np.exp(2.0 * x),
            lambda x: 4.0 * np.exp(2.0 * x),
            lambda x: 2.0 * x,
        ),
        exponent=0.5,
    ),
    Card(
        r"e^{s_l} / (\sum_j e^{2 s_j})^{1/2}",
        "softmax with another norm below: an ablation",
        "",
        "One token: 1. The weights sum to between 1 and √L.",
    ),
)
enter(
    Ratio(
        "cosine",
        phi=ScalarMap(np.positive, np.ones_like, np.zeros_like, bends=(0.0,)),
        gauge=even_power(2),
        exponent=0.5,
    ),
    Card(
        r"s_l / (\sum_j s_j^2)^{1/2}",
        "Mongaras et al. 2024 (Cottention), 2409.18747; Swin v2, 2111.09883",
        "The published ones normalise queries and keys, not the scores.",
        "One token: the sign of its score. All scores 0: all weights are 0.",
    ),
)
enter(
    Ratio(
        "l1-linear",
        phi=ScalarMap(LINEAR.phi.value, LINEAR.phi.first, LINEAR.phi.second, bends=(-1.0,)),
        gauge=ScalarMap(
            lambda x: np.abs(1.0 + x),
            lambda x: np.sign(1.0 + x),
            np.zeros_like,
            bends=(-1.0,),
        ),
    ),
    Card(
        r"(1 + s_l) / \sum_j \mathrm{abs}(1 + s_j)",
        "cf. Koohpayegani and Pirsiavash 2022 (SimA), 2206.08898",
        "",
        "One token: the sign of 1 + s. All scores −1: all weights are 0.",
    ),
)

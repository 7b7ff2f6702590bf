"""Normalised activations of the atlas: a map of each score, divided by the sum of all."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.activations import SOFTPLUS, Normalised, ScalarMap
from slrlab.model.atlas.elementwise import LOGISTIC, RELU, RELU2, TAYLOR2
from slrlab.model.cards import Card, enter

_BIAS = "The bias c is optimised."
_ONE = "One token: 1."
_NONE = "All scores below −c: 0/0, all weights are 0. One token above it: 1."


def even_power(power: int) -> ScalarMap:
    """Return ``x^power`` for an even power: it vanishes at 0."""
    return ScalarMap(
        lambda x: x**power,
        lambda x: power * x ** (power - 1),
        lambda x: power * (power - 1) * x ** (power - 2),
        bends=(0.0,),
    )


def _softcap(cap: float) -> ScalarMap:
    def value(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(cap * np.tanh(x / cap)))

    def slope(x: FloatArray) -> FloatArray:
        return np.asarray(1.0 - np.tanh(x / cap) ** 2)

    def first(x: FloatArray) -> FloatArray:
        return value(x) * slope(x)

    def second(x: FloatArray) -> FloatArray:
        return value(x) * slope(x) * (slope(x) - 2.0 * np.tanh(x / cap) / cap)

    return ScalarMap(value, first, second, lambda x: cap * np.tanh(x / cap))


def _sigsoftmax() -> ScalarMap:
    def value(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(x + special.log_expit(x)))

    def slope(x: FloatArray) -> FloatArray:
        return np.asarray(1.0 + special.expit(-x))

    def second(x: FloatArray) -> FloatArray:
        return value(x) * (slope(x) ** 2 - special.expit(x) * special.expit(-x))

    return ScalarMap(
        value, lambda x: value(x) * slope(x), second, lambda x: x + special.log_expit(x)
    )


ELU1 = ScalarMap(
    lambda x: np.where(x >= 0.0, 1.0 + x, np.exp(np.minimum(x, 0.0))),
    lambda x: np.where(x >= 0.0, 1.0, np.exp(np.minimum(x, 0.0))),
    lambda x: np.where(x >= 0.0, 0.0, np.exp(np.minimum(x, 0.0))),
    lambda x: np.where(x >= 0.0, np.log1p(np.maximum(x, 0.0)), x),
    bends=(0.0,),
)
_PERIODS = 20  # zeros of the periodic map on either side that integration rules know
PERIODIC = ScalarMap(
    lambda x: np.sin(x / 2.0) ** 2,
    lambda x: np.sin(x) / 2.0,
    lambda x: np.cos(x) / 2.0,
    bends=tuple(2.0 * math.pi * n for n in range(-_PERIODS, _PERIODS + 1)),
)

enter(
    Normalised("softplus-biased", bias=None, phi=SOFTPLUS.phi, exponential="left"),
    Card(
        r"\log(1 + e^{s_l + c}) / \sum_j \log(1 + e^{s_j + c})",
        "Duranthon et al. 2025, 2509.21936, with a bias",
        f"{_BIAS} It is softmax in the limit c → −∞.",
        _ONE,
    ),
)
enter(
    Normalised("softmax-1", sink=1.0, exponential="everywhere"),
    Card(
        r"e^{s_l} / (1 + \sum_j e^{s_j})",
        "Miller 2023, Attention is off by one",
        "The constant 1 is fixed.",
        "One token: the logistic of its score. All scores low: all weights near 0.",
    ),
)
enter(
    Normalised("softmax-sink", bias=None, sink=1.0, exponential="everywhere"),
    Card(
        r"e^{s_l} / (e^{b} + \sum_j e^{s_j})",
        "OpenAI 2025 (gpt-oss), 2508.10925",
        "The sink b is optimised; the best one is −∞, which is softmax.",
        "One token: the logistic of its score minus b.",
    ),
)
enter(
    Normalised("relu-normalised", bias=None, phi=RELU),
    Card(
        r"\max(s_l + c, 0) / \sum_j \max(s_j + c, 0)",
        "variant of Wortsman et al. 2023, 2309.08586",
        _BIAS,
        _NONE,
    ),
)
enter(
    Normalised("relu2-normalised", bias=None, phi=RELU2),
    Card(
        r"\max(s_l + c, 0)^2 / \sum_j \max(s_j + c, 0)^2",
        "variant of Hua et al. 2022 (GAU), 2202.10447",
        _BIAS,
        _NONE,
    ),
)
for _cap in (50.0, 5.0):
    enter(
        Normalised(f"softcap-{_cap:g}", phi=_softcap(_cap)),
        Card(
            r"\mathrm{softmax}(C \tanh(s_l/C)),\ C = " + f"{_cap:g}",
            "Gemma Team 2024 (Gemma 2), 2408.00118",
            "The cap is fixed; Gemma 2 has 50.",
            _ONE,
        ),
    )
enter(
    Normalised("sigsoftmax", phi=_sigsoftmax()),
    Card(
        r"e^{s_l} S(s_l) / \sum_j e^{s_j} S(s_j),\ S(s) = 1/(1 + e^{-s})",
        "Kanai et al. 2018, 1805.10829",
        "",
        _ONE,
    ),
)
enter(
    Normalised("taylor2-normalised", phi=TAYLOR2),
    Card(
        r"(1 + s_l + s_l^2/2) / \sum_j (1 + s_j + s_j^2/2)",
        "de Brébisson and Vincent 2015, 1511.05042; Arora et al. 2024 (Based), 2402.18668",
        "",
        f"{_ONE} The map is at least 1/2.",
    ),
)
for _power, _source in (
    (2, "de Brébisson and Vincent 2015, 1511.05042"),
    (4, "Kacham et al. 2023 (PolySketchFormer), 2310.01655"),
):
    enter(
        Normalised(f"spherical-{_power}", bias=None, phi=even_power(_power)),
        Card(
            rf"(s_l + c)^{_power} / \sum_j (s_j + c)^{_power}",
            _source,
            _BIAS,
            "All scores at −c: 0/0, all weights are 0. Else one token: 1.",
        ),
    )
enter(
    Normalised("elu1", phi=ELU1, exponential="left"),
    Card(
        r"(\mathrm{elu}(s_l) + 1) / \sum_j (\mathrm{elu}(s_j) + 1)",
        "Katharopoulos et al. 2020, 2006.16236",
        "The scalar form: the published one maps queries and keys before their product.",
        _ONE,
    ),
)
enter(
    Normalised("elu1-biased", bias=None, phi=ELU1, exponential="left"),
    Card(
        r"(\mathrm{elu}(s_l + c) + 1) / \sum_j (\mathrm{elu}(s_j + c) + 1)",
        "variant of Katharopoulos et al. 2020, 2006.16236",
        f"{_BIAS} It is softmax in the limit c → −∞.",
        _ONE,
    ),
)
enter(
    Normalised("hedgehog", bias=None, phi=LOGISTIC, exponential="left"),
    Card(
        r"S(s_l + c) / \sum_j S(s_j + c),\ S(s) = 1/(1 + e^{-s})",
        "Zhang et al. 2024 (Hedgehog), 2402.04347, with one feature",
        f"{_BIAS} With several features there is no scalar form.",
        _ONE,
    ),
)
enter(
    Normalised("periodic", bias=None, phi=PERIODIC),
    Card(
        r"\sin^2((s_l + c)/2) / \sum_j \sin^2((s_j + c)/2)",
        "Wang et al. 2021, 2108.07153",
        "The phase c is optimised.",
        "All maps 0: 0/0, all weights are 0. Else one token: 1.",
    ),
)

"""Elementwise activations of the atlas: each token is weighed by its own score."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.activations import Elementwise, ScalarMap
from slrlab.model.cards import Card, enter

_MEAN, _STD = math.sqrt(0.5), 1.0 / math.sqrt(4.0 * math.pi)
_BIAS = "The bias c is optimised."
_NOT_ONE = "One token: not 1, the weight depends on its score."
_ZERO = "All scores below −c: all weights are 0."


def relu_power(power: int) -> ScalarMap:
    """Return ``max(x, 0)^power`` with its derivatives; the first power has a kink."""

    def value(x: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(x, 0.0) ** power)

    def first(x: FloatArray) -> FloatArray:
        return np.asarray(power * np.maximum(x, 0.0) ** (power - 1) * (x > 0.0))

    def second(x: FloatArray) -> FloatArray:
        curve = power * (power - 1) * np.maximum(x, 0.0) ** max(power - 2, 0)
        return np.asarray(curve * (x > 0.0))

    return ScalarMap(value, first, second, bends=(0.0,))


RELU, RELU2 = relu_power(1), relu_power(2)
LOGISTIC = ScalarMap(
    special.expit,
    lambda x: special.expit(x) * special.expit(-x),
    lambda x: special.expit(x) * special.expit(-x) * (special.expit(-x) - special.expit(x)),
    special.log_expit,
)
EXP = ScalarMap(np.exp, np.exp, np.exp, np.positive)
TAYLOR2 = ScalarMap(
    lambda x: 0.5 * (1.0 + (1.0 + x) ** 2),
    lambda x: 1.0 + x,
    np.ones_like,
    lambda x: np.log(0.5) + np.log1p((1.0 + x) ** 2),
)


def _laplace_bell(x: FloatArray) -> FloatArray:
    z = (x - _MEAN) / _STD
    return np.asarray(np.exp(-(z**2) / 2.0) / (_STD * math.sqrt(2.0 * math.pi)))


enter(
    Elementwise(
        "laplace",
        phi=ScalarMap(
            lambda x: special.ndtr((x - _MEAN) / _STD),
            _laplace_bell,
            lambda x: -(x - _MEAN) / _STD**2 * _laplace_bell(x),
            lambda x: special.log_ndtr((x - _MEAN) / _STD),
        ),
    ),
    Card(
        r"\frac{1}{2} [1 + \mathrm{erf}((s_l - \mu)/(\tau\sqrt{2}))],\ \mu = \sqrt{1/2},\ "
        r"\tau = 1/\sqrt{4\pi}",
        "Ma et al. 2022 (Mega), 2209.10655",
        "Mean and width are fixed as published.",
        _NOT_ONE,
    ),
)
enter(
    Elementwise("sigmoid", bias=None, phi=LOGISTIC),
    Card(r"1/(1 + e^{-s_l - c})", "Ramapuram et al. 2024, 2409.04431", _BIAS, _NOT_ONE),
)
enter(
    Elementwise("relu", bias=None, phi=RELU),
    Card(
        r"\max(s_l + c, 0)",
        "Wortsman et al. 2023, 2309.08586, without the division by L",
        f"{_BIAS} Also ReLA (2104.07012) without the norm of its output.",
        f"{_NOT_ONE} {_ZERO}",
    ),
)
enter(
    Elementwise("relu2", bias=None, phi=RELU2),
    Card(
        r"\max(s_l + c, 0)^2",
        "Hua et al. 2022 (GAU), 2202.10447",
        f"{_BIAS} A factor 1/n is part of the values.",
        f"{_NOT_ONE} {_ZERO}",
    ),
)
enter(
    Elementwise("consmax", phi=EXP),
    Card(
        r"e^{s_l - \beta}/\gamma",
        "Liu et al. 2024 (ConSmax), 2402.10930",
        "The constants β and γ are part of the values.",
        f"{_NOT_ONE} Overflows beyond scores of 700.",
    ),
)
enter(
    Elementwise("taylor2", phi=TAYLOR2),
    Card(
        r"1 + s_l + s_l^2/2",
        "Arora et al. 2024 (Based), 2402.18668",
        "Without the sum below; taylor2-normalised has it.",
        _NOT_ONE,
    ),
)
enter(
    Elementwise(
        "cubic",
        phi=ScalarMap(lambda x: x**3, lambda x: 3.0 * x**2, lambda x: 6.0 * x, bends=(0.0,)),
    ),
    Card(
        r"s_l^3",
        "Saratchandran et al. 2024, 2410.18613",
        "A power of L in front is part of the values.",
        "One token: its score cubed. Weights may be negative.",
    ),
)

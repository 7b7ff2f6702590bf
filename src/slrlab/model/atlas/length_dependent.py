"""Activations of the atlas that see the length of the sequence."""

from __future__ import annotations

import math

from slrlab.model.activations import ENTMAX15, SOFTMAX, Elementwise
from slrlab.model.atlas.elementwise import LOGISTIC, RELU
from slrlab.model.cards import Card, enter
from slrlab.model.families import LengthScaled


def _one_over(length: int) -> float:
    return 1.0 / length


def _minus_log(length: int) -> float:
    return -math.log(length)


def _one_plus_log(length: int) -> float:
    return 1.0 + math.log(length)


def _log(length: int) -> float:
    return math.log(length)


enter(
    LengthScaled("relu-over-length", bias=None, base=Elementwise("", phi=RELU), factor=_one_over),
    Card(
        r"\max(s_l + c, 0) / L",
        "Wortsman et al. 2023, 2309.08586",
        "The bias c is optimised.",
        "All scores below −c: all weights are 0.",
    ),
)
enter(
    LengthScaled("sigmoid-log-length", base=Elementwise("", phi=LOGISTIC), shift=_minus_log),
    Card(
        r"1/(1 + L e^{-s_l})",
        "Ramapuram et al. 2024, 2409.04431",
        "The bias −log L is fixed as published.",
        "One token: the logistic of its score.",
    ),
)
enter(
    LengthScaled("ssmax", base=SOFTMAX, score=_log),
    Card(
        r"\mathrm{softmax}(t \log(L)\, s)_l",
        "Nakanishi 2025 (Scalable-Softmax), 2501.19399",
        "The factor t is the norm of the keys.",
        "One token: 1.",
    ),
)
enter(
    LengthScaled("as-entmax", base=ENTMAX15, score=_one_plus_log),
    Card(
        r"\mathrm{entmax}_{1.5}((\delta + \beta \log(L)^\gamma)\, s)_l",
        "Vasylenko et al. 2025 (AS-entmax), 2506.16640",
        "The published β, γ and δ are learned; here β = δ is the norm of the keys and γ is 1.",
        "One token: 1.",
    ),
)

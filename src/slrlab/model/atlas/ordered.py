"""Activations of the atlas that depend on the order of the tokens."""

from __future__ import annotations

from slrlab.model.atlas.elementwise import RELU
from slrlab.model.cards import Card, enter
from slrlab.model.families import CosineReweighted, StickBreaking

_AVERAGE = "The bias c is optimised; risks are averages over the location."

enter(
    StickBreaking("stick-breaking", bias=None),
    Card(
        r"S(s_l + c) \prod_{j > l} (1 - S(s_j + c)),\ S(s) = 1/(1 + e^{-s})",
        "Tan et al. 2024, 2410.17980",
        _AVERAGE,
        "One token: the logistic of its score. Weights sum to at most 1.",
    ),
)
enter(
    CosineReweighted("cosformer", bias=None, phi=RELU),
    Card(
        r"w_l \max(s_l + c, 0) / \sum_j w_j \max(s_j + c, 0),\ w_l = \cos(\pi (L - l)/(2L))",
        "Qin et al. 2022 (cosFormer), 2202.08791",
        f"{_AVERAGE} The scalar form: the published one takes the ReLU of queries and keys before "
        "their product, and divides by at least 1e-6. The query is at the last token, and the "
        "largest length that the cosine knows is L.",
        "All scores below −c: 0/0, all weights are 0. One token above it: 1.",
    ),
)

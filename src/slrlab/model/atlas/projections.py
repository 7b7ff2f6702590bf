"""Projections and selections of the atlas: most tokens get no weight at all."""

from __future__ import annotations

from slrlab.model.activations import Projection
from slrlab.model.cards import Card, enter
from slrlab.model.families import NormMax, TopK

_ONE = "One token: 1."

enter(
    Projection("entmax1.2", power=5.0),
    Card(
        r"\max(0.2 s_l - \tau, 0)^5,\ \sum_j \max(0.2 s_j - \tau, 0)^5 = 1",
        "Peters et al. 2019, 1905.05702",
        "α = 1.2; α → 1 is softmax, α = 2 is sparsemax.",
        _ONE,
    ),
)
enter(
    TopK("hardmax", k=1),
    Card(
        r"1 \text{ if } s_l = \max_j s_j \text{, else } 0",
        "limit of softmax",
        "It has no parameter: every norm of the keys is as good.",
        f"{_ONE} Of equal scores the first one counts.",
    ),
)
enter(
    TopK("top2-softmax", k=2),
    Card(
        r"e^{s_l} / \sum_{j \in \text{top 2}} e^{s_j} \text{ if } l \in \text{top 2, else } 0",
        "Zhao et al. 2019, 1912.11637",
        "k = 2.",
        f"{_ONE} Two tokens: softmax. Of equal scores the first ones count.",
    ),
)
enter(
    Projection("budget-2", budget=2),
    Card(
        r"\min(\max(s_l - \tau, 0), 1),\ \sum_j \min(\max(s_j - \tau, 0), 1) = 2",
        "Santos et al. 2024 (k-subsets), 2402.13725",
        "The budget is 2: at most half of the weight is on one token.",
        "One or two tokens: every weight is 1.",
    ),
)
enter(
    NormMax("normmax-2"),
    Card(
        r"(s_l - \tau)_+ / \sum_j (s_j - \tau)_+,\ \sum_j (s_j - \tau)_+^2 = 1",
        "Blondel et al. 2020, 1901.02324; Santos et al. 2024, 2402.13725",
        "α = 2: the weights are those that maximise their product with the scores minus their "
        "norm. They are the roots of the weights of 1.5-entmax at twice the scores, normalised.",
        _ONE,
    ),
)

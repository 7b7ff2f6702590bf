"""Cards of the activations that the package ships for the paper, and of those with no entry."""

from __future__ import annotations

from slrlab.model.activations import ENTMAX15, ERF, LINEAR, SOFTMAX, SOFTPLUS, SPARSEMAX
from slrlab.model.cards import ABSENT, Absent, Card, enter

_ONE = "One token: 1."
_NOT_ONE = "One token: not 1, the weight depends on its score."

enter(
    SOFTMAX,
    Card(
        r"e^{s_l} / \sum_j e^{s_j}",
        "Vaswani et al. 2017, 1706.03762",
        "The temperature is the norm of the keys.",
        _ONE,
    ),
)
enter(
    LINEAR,
    Card(r"1 + s_l", "Duranthon et al. 2025, 2509.21936", "Weights may be negative.", _NOT_ONE),
)
enter(
    ERF,
    Card(
        r"1 + \mathrm{erf}(s_l + c)",
        "Duranthon et al. 2025, 2509.21936; without the 1: Marion et al. 2024, 2410.01537",
        "The bias c is optimised.",
        _NOT_ONE,
    ),
)
enter(
    SOFTPLUS,
    Card(
        r"\log(1 + e^{s_l}) / \sum_j \log(1 + e^{s_j})",
        "Duranthon et al. 2025, 2509.21936",
        "No bias; softplus-biased has one.",
        f"{_ONE} The denominator is positive.",
    ),
)
enter(
    SPARSEMAX,
    Card(
        r"\max(s_l - \tau, 0),\ \sum_j \max(s_j - \tau, 0) = 1",
        "Martins and Astudillo 2016, 1602.02068",
        "The Euclidean projection of the scores on the simplex.",
        _ONE,
    ),
)
enter(
    ENTMAX15,
    Card(
        r"\max(s_l/2 - \tau, 0)^2,\ \sum_j \max(s_j/2 - \tau, 0)^2 = 1",
        "Peters et al. 2019, 1905.05702",
        "",
        _ONE,
    ),
)

ABSENT += [
    Absent(
        "bayes-softmax",
        "Sagitova et al. 2026, 2603.03993",
        "one normaliser for several heads; with one head it is softmax",
    ),
    Absent(
        "rela",
        "Zhang et al. 2021, 2104.07012",
        "RMSNorm of the output keeps only the sign of a scalar; without it, it is relu",
    ),
    Absent(
        "clipped-softmax",
        "Bondarenko et al. 2023, 2306.12929",
        "clip((ζ − γ) softmax + γ, 0, 1); the best γ is 0 and ζ is 1: it is then softmax",
    ),
    Absent(
        "favor+",
        "Choromanski et al. 2020, 2009.14794",
        "depends on the norms of the tokens; its mean over the features is softmax",
    ),
    Absent("dpfp", "Schlag et al. 2021, 2102.11174", "features of whole vectors, not of a score"),
    Absent("differential", "Ye et al. 2024, 2410.05258", "the difference of two score vectors"),
    Absent("sinkhorn", "Sander et al. 2021, 2110.11773", "needs the scores of all queries"),
    Absent("soft", "Lu et al. 2021, 2110.11945", "a Gaussian of distances: needs the norms"),
]

"""One law of tokens at one dimension beside the theory of Gaussian ones: what a sweep needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slrlab._result import Result, Status
from slrlab.model.activations import Activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.model.token_laws import TokenLaw
from slrlab.simulation.training.erm import simulate_erm
from slrlab.theory.erm import erm_theory


@dataclass(frozen=True)
class LawGap(Result):
    """Test risk of training on tokens of one law, minus the theory, at one dimension.

    Attributes
    ----------
    gap, gap_error
        Simulation minus theory with its standard error: over seeds, or with one seed over the test
        sample.
    test_risk, theory_risk
        The two sides.
    token_law, dim, seeds
        As given.
    """

    gap: float
    gap_error: float
    test_risk: float
    theory_risk: float
    token_law: str
    dim: int
    seeds: int
    setting: Setting


def law_gap(
    task: Task,
    activation: Activation | str = "softmax",
    *,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    token_law: TokenLaw | str,
    dim: int,
    seeds: int = 8,
    seed: int = 0,
    test_samples: int = 4000,
    tolerance: float = 1e-3,
) -> LawGap:
    """Train on tokens of one law and compare the test risk with the theory of Gaussian ones.

    The arguments are those of `slrlab.universality`, for one law and one dimension.

    >>> from slrlab import SpikedSLR
    >>> gap = law_gap(SpikedSLR(2.0, 2), "linear", alpha=4.0, ridge_k=1.0, ridge_v=1.0,
    ...     token_law="laplace", dim=60, seeds=4)
    >>> abs(gap.gap) < 0.3
    True
    """
    law = TokenLaw.of(token_law)
    ridges: dict[str, Any] = {"alpha": alpha, "ridge_k": ridge_k, "ridge_v": ridge_v}
    sizes: dict[str, Any] = {"dim": dim, "seeds": seeds, "seed": seed}
    training = simulate_erm(
        task, activation, **ridges, **sizes, test_samples=test_samples, token_law=law
    )
    theory = erm_theory(task, activation, **ridges, tolerance=tolerance)
    return LawGap(
        status=Status.worst((training.status, theory.status)),
        gap=training.test_risk - theory.test_risk,
        gap_error=math.hypot(training.test_risk_error, theory.test_risk_error),
        test_risk=training.test_risk,
        theory_risk=theory.test_risk,
        token_law=str(law),
        dim=training.dim,
        seeds=training.seeds,
        setting=training.setting,
    )

"""The paper's finite-sample claim C10 as an executable check with the numbers of all sides."""

from __future__ import annotations

from slrlab.experiments.claims.checks import Check, Claim, below
from slrlab.experiments.parallel import parallel_map
from slrlab.model.tasks import Task, make_task
from slrlab.theory.bayes_optimal import bayes_optimal
from slrlab.theory.erm import optimal_ridge

SIGNALS, ALPHAS, LENGTH = (1.0, 2.0, 5.0), (1.0, 4.0, 16.0), 3
_ERRORS = 2.0  # standard errors granted to the side that has to be smaller


def _task(signal: float) -> Task:
    return make_task("spiked", signal=signal, length=LENGTH)


def _trained(setting: tuple[str, float, float]) -> tuple[float, float]:
    """Return test risk and standard error at the best ridge."""
    activation, signal, alpha = setting
    found = optimal_ridge(_task(signal), activation, alpha=alpha, tolerance=1e-3)
    return found.test_risk, found.test_risk_error


def _c10() -> list[Check]:
    settings = [(nu, alpha) for nu in SIGNALS for alpha in ALPHAS]
    curves = [(name, *setting) for name in ("softmax", "linear") for setting in settings]
    trained = dict(zip(curves, parallel_map(_trained, curves, label="claim C10"), strict=True))
    checks = []
    for nu, alpha in settings:
        case = f"spiked, signal {nu:g}, length {LENGTH}, alpha {alpha:g}, best ridge"
        soft, soft_error = trained["softmax", nu, alpha]
        line, line_error = trained["linear", nu, alpha]
        best = bayes_optimal(_task(nu), alpha=alpha).risk_it
        upper = ("softmax + 2 errors", soft + _ERRORS * soft_error)
        checks.append(below(case, upper, ("linear − 2 errors", line - _ERRORS * line_error)))
        lower = ("softmax − 2 errors", soft - _ERRORS * soft_error)
        checks.append(below(case, ("Bayes-optimal", best), lower))
        lower = ("linear − 2 errors", line - _ERRORS * line_error)
        checks.append(below(case, ("Bayes-optimal", best), lower))
    return checks


FINITE_SAMPLE_CLAIMS = (
    Claim(
        "C10",
        "Fig. 3",
        "With finite data softmax lies below linear, both above Bayes-optimal.",
        _c10,
    ),
)

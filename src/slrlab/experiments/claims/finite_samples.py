"""The paper's finite-sample claim C10 as an executable check with the numbers of all sides."""

from __future__ import annotations

from slrlab.experiments.claims.checks import Check, Claim, below
from slrlab.experiments.learning_curve import LENGTH, SIGNALS, best_trained, curve_task
from slrlab.experiments.parallel import Report
from slrlab.theory.bayes_optimal import bayes_optimal

ALPHAS, TOLERANCE = (1.0, 4.0, 16.0), 2e-3  # points of Figure 3 too
_ERRORS = 2.0  # standard errors granted to the side that has to be smaller


def _c10(report: Report | None = None) -> list[Check]:
    settings = [(nu, alpha) for nu in SIGNALS for alpha in ALPHAS]
    curves = [(name, *setting) for name in ("softmax", "linear") for setting in settings]
    points = best_trained(curves, TOLERANCE, label="claim C10", report=report)
    found = ((point.test_risk, point.test_risk_error) for point in points)
    trained = dict(zip(curves, found, strict=True))
    checks = []
    for nu, alpha in settings:
        case = f"spiked, signal {nu:g}, length {LENGTH}, alpha {alpha:g}, best ridge"
        soft, soft_error = trained["softmax", nu, alpha]
        line, line_error = trained["linear", nu, alpha]
        best = bayes_optimal(curve_task(nu), alpha=alpha).risk_it
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
        spreads=True,
    ),
)

"""Tables of theory beside simulation: differences with intervals, p-values and what they mean."""

from __future__ import annotations

from slrlab._result import Estimate
from slrlab.cli.console import print_lines, print_table
from slrlab.experiments.comparison.amp import AmpComparison
from slrlab.experiments.comparison.dimensions import AmpExtrapolation, ErmExtrapolation
from slrlab.experiments.comparison.student import Limit, half_width, p_value
from slrlab.experiments.comparison.training import Comparison

_GAP = "± one standard error; gap: simulation minus theory, with its 95 % interval (Student's t)"
_P = "p: how often chance alone makes so large a gap"
_LIMIT = "from a fit of gap + b/D"


def print_erm(last: Comparison, limits: ErmExtrapolation | None, test_samples: int) -> None:
    """Print trained attention beside its theory, at each dimension and in their limit."""
    for one in (last,) if limits is None else limits.comparisons:
        _print_dimension(one)
    notes = [_GAP, _P, "order_risk: test risk computed from the trained order parameters"]
    if "test_risk" in last.gaps:
        notes.append(f"test_risk: test risk measured on {test_samples} fresh sequences a seed")
    if limits is None:
        notes.append(_drift_note(last.dim))
    else:
        _print_limits(f"As D → ∞, {_LIMIT}", limits.limits)
        print_lines([_smallest(limits.p_values, limits.family_p)])
    print_lines(notes)


def print_amp(last: AmpComparison, limits: AmpExtrapolation | None) -> None:
    """Print message passing beside its state evolution, at each dimension and in their limit."""
    for one in (last,) if limits is None else limits.comparisons:
        print_table(str(one), *one.table())
        if one.iteration:
            rows = [(name, *_tested(one.gaps(name)[-1])) for name in one.family_p]
            print_table(f"Iteration {one.iteration[-1]}", ("quantity", "gap (95 %)", "p"), rows)
            print_lines([_along(one.family_p, len(one.iteration))])
    notes = [_GAP, _P, "risk: measured on fresh sequences"]
    if limits is None:
        notes.append(_drift_note(last.dim))
    elif limits.iteration:
        fits = {name: path[-1] for name, path in limits.limits.items()}
        _print_limits(f"Iteration {limits.iteration[-1]} as D → ∞, {_LIMIT}", fits)
        print_lines([_along(limits.family_p, len(limits.iteration))])
    print_lines(notes)


def _print_dimension(comparison: Comparison) -> None:
    rows = []
    for name, gap in comparison.gaps.items():
        simulated, exact = comparison.sides(name)
        rows.append((name, str(exact), str(simulated), *_tested(gap)))
    runs = comparison.simulation
    title = f"{runs.setting}, D {runs.dim}, {runs.seeds} seeds: {comparison.status}"
    print_table(title, ("quantity", "theory", "simulation", "gap (95 %)", "p"), rows)
    print_lines([_smallest(comparison.p_values, comparison.family_p)])


def _print_limits(title: str, limits: dict[str, Limit]) -> None:
    rows = [(name, *_tested(one.value), *_tested(one.drift)) for name, one in limits.items()]
    print_table(title, ("quantity", "gap (95 %)", "p", "b (95 %)", "p of b"), rows)


def _tested(gap: Estimate) -> tuple[str, str]:
    """Return a difference with half the length of its interval, and its p-value."""
    shown = str(Estimate(gap.value, half_width(gap)))
    return shown if shown[0] in "-n" else f"+{shown}", _p(p_value(gap))


def _p(value: float) -> str:
    return f"{value:.0e}" if value < 0.001 else f"{value:.2g}"


def _smallest(values: dict[str, float], family: float) -> str:
    smallest = _p(min(values.values()))
    return f"smallest p of {len(values)}: {smallest}, after Bonferroni {_p(family)}"


def _along(family: dict[str, float], steps: int) -> str:
    values = ", ".join(f"{name} {_p(value)}" for name, value in family.items())
    return f"smallest p of {steps} iterations, after Bonferroni: {values}"


def _drift_note(dim: int) -> str:
    return f"a drift of order 1/D is part of each gap: --dims {max(2, dim // 4)},{dim} estimates it"

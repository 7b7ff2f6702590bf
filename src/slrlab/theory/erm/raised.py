"""The least ridge of the keys at which the theory of trained attention holds.

This module knows one problem and its solutions; it searches for no optimum.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slrlab.theory.erm.equations import Channel
from slrlab.theory.erm.measure import Solution
from slrlab.theory.erm.overlaps import ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.solve import COARSE, Solver
from slrlab.theory.erm.stability import MOST_GAP, trace_gap

_MOST_STEPS = 8  # a solution that takes more needs a new response
_MARGIN = 0.9  # fraction of the largest trace gap: the edge then holds on other samples, too
_RAISE, _LONGEST_RAISE, _MOST_RAISES = 1.25, 4.0, 30


def response_near(solver: Solver, problem: Problem, overlaps: ErmOverlaps) -> Response:
    """Return the linear response near a solution, from a small sample."""
    channel = Channel.of(solver.fields(COARSE), problem.activation, problem.task.noise)
    return problem.response(channel, overlaps.to_vector())


def gap_of(solution: Solution) -> float:
    """Return the trace gap; infinite if the iteration did not settle."""
    if not solution.settled:
        return math.inf
    return trace_gap(solution.means, solution.problem.alpha, solution.overlaps)


def raised(solver: Solver, now: Solution, size: int) -> tuple[Solution, Solution | None]:
    """Raise the ridge of the keys until the trace gap is small enough, to one short raise.

    Also return the last solution whose gap is too large.
    """
    below, response, most = None, None, _MARGIN * MOST_GAP

    def at(ridge_k: float, near: Solution) -> Solution:
        nonlocal response
        problem = replace(near.problem, ridge_k=ridge_k)
        response = response or response_near(solver, problem, near.overlaps)
        solution = solver.solve(problem, near.overlaps, size, response=response)
        response = response if solution.steps <= _MOST_STEPS else None
        return solution

    low = high = max(now.problem.ridge_k or 0.0, 1e-4)
    for _ in range(_MOST_RAISES):
        if gap_of(now) <= most:
            break
        below, low = now, high
        high *= float(np.clip(gap_of(now) / MOST_GAP, _RAISE, _LONGEST_RAISE))
        now = at(high, now)
    while high > 1.01 * _RAISE * low:
        middle = math.sqrt(low * high)
        between = at(middle, now)
        if gap_of(between) <= most:
            now, high = between, middle
        else:
            below, low = between, middle
    return now, below

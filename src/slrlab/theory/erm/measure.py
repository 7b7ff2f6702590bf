r"""What is computed at a fixed point: risk, error bars, stability, status, as a result.

The scatter of the blocks of a sample becomes an error bar by linear response. This module must not
know how fixed points are found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from slrlab._result import Estimate, Status
from slrlab._types import FloatArray
from slrlab.numerics.fixed_point import FixedPoint
from slrlab.theory.erm import codes
from slrlab.theory.erm.equations import Channel, ChannelMeans
from slrlab.theory.erm.overlaps import Coordinate, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.stability import MOST_GAP, jump_warning, replicon

_MOST_UNSOLVED = 0.01  # share of samples whose prox did not settle (sparsemax: on a kink)


@dataclass(frozen=True)
class Solution:
    """A fixed point on one sample, and what is computed there."""

    problem: Problem
    overlaps: ErmOverlaps
    found: FixedPoint
    channel: Channel
    steps: int

    @cached_property
    def means(self) -> ChannelMeans:
        """The averages at the fixed point, each prox searched globally."""
        channel = self.channel
        channel = channel if channel.global_prox else replace(channel, global_prox=True)
        return channel.means(self.overlaps)

    @property
    def usable(self) -> bool:
        """Whether the iteration got close enough to anything to be measured."""
        return not self.found.diverged and bool(np.isfinite(self.found.point).all())

    @property
    def settled(self) -> bool:
        """Whether the residual is small enough for a coarse sample."""
        return self.found.converged or (self.found.stalled and self.found.residual < 0.02)


def measure(
    solution: Solution,
    name: str,
    branches: tuple[ErmBranch, ...],
    tolerance: float,
    response: Response | None = None,
) -> ErmTheory:
    """Return risk, errors, stability and status at a fixed point."""
    problem, overlaps = solution.problem, solution.overlaps
    channel = solution.channel
    means = channel.means(overlaps, squares=True)
    x = overlaps.to_vector()
    if response is None:
        response = problem.response(channel, x)
    images, slope = problem.images(means, overlaps), problem.risk_slope(x)
    shifts = (images - images.mean(axis=0)) @ response.matrix.T
    remaining = response.matrix @ (images.mean(axis=0) - x)
    risk, risk_error = problem.risk(overlaps), Estimate.of(shifts @ slope).error
    eigenvalue = replicon(means, problem.alpha, overlaps)
    warning = jump_warning(means, problem.alpha, overlaps)
    stable = bool(eigenvalue < 1.0 and warning.trace_gap <= MOST_GAP)
    solved = solution.found.converged or bool(
        np.abs(remaining).max() < 0.1 and abs(remaining @ slope) < risk_error
    )
    accurate = risk_error <= tolerance and means.mean("UNSOLVED") < _MOST_UNSOLVED
    other = replace(problem, stiffness="trace" if problem.stiffness == "stein" else "stein")
    here, there = (form.images(means.pooled, overlaps)[0] for form in (problem, other))
    elsewhere = risk + float(slope @ response.matrix @ (there - here))
    return ErmTheory(
        status=_status(solution.found, solved, stable, accurate),
        test_risk=risk,
        test_risk_error=risk_error,
        test_risk_low=min(risk, elsewhere),
        test_risk_high=max(risk, elsewhere),
        train_mse=means.mean("LOSS"),
        objective=problem.objective(means, overlaps),
        **{key: getattr(overlaps, key) for key in ORDER},
        bias=overlaps.bias if problem.trains_bias else float(problem.activation.bias or 0.0),
        replicon=eigenvalue,
        stable=stable,
        bistable_fraction=warning.bistable_fraction,
        trace_gap=warning.trace_gap,
        branch=name,
        branches=branches,
        samples=channel.fields.size,
        steps=solution.steps,
        residual=solution.found.residual,
        stiffness=problem.stiffness,
        setting=problem.setting(*problem.ridges(means, overlaps)),
        errors=_errors(problem, overlaps, means, shifts, response),
    )


ORDER = ("m_k", "m_v", "q_k", "q_v", "V_k", "V_v")


def _status(found: FixedPoint, solved: bool, stable: bool, accurate: bool) -> Status:
    if found.diverged:
        return Status.DIVERGED
    if not solved:
        return Status.NOT_CONVERGED
    if not stable:
        return Status.UNSTABLE
    return Status.SAMPLED if accurate else Status.INACCURATE


def _errors(
    problem: Problem,
    overlaps: ErmOverlaps,
    means: ChannelMeans,
    shifts: FloatArray,
    response: Response,
) -> dict[str, float]:
    """Return standard errors from the shifts of the coordinates that each block asks for."""
    by = dict(zip(Coordinate, shifts.T, strict=True))
    m_k, m_v = by[Coordinate.M_K], by[Coordinate.M_V]
    moves = {
        "m_k": m_k,
        "m_v": m_v,
        "q_k": 2.0 * overlaps.m_k * m_k + overlaps.R_k * by[Coordinate.LOG_R_K],
        "q_v": 2.0 * overlaps.m_v * m_v + overlaps.R_v * by[Coordinate.LOG_R_V],
        "V_k": overlaps.V_k * by[Coordinate.LOG_V_K],
        "V_v": overlaps.V_v * by[Coordinate.LOG_V_V],
        "train_mse": means.rows[:, codes.LOSS] + shifts @ response.loss_slope,
        # the objective is stationary in the order parameters: only its own average scatters
        "objective": problem.alpha * means.rows[:, codes.ENVELOPE],
    }
    return {name: Estimate.of(move).error for name, move in moves.items()}


def branch_of(name: str, solution: Solution) -> ErmBranch:
    """Return the summary of a fixed point, named after the start that led there."""
    problem, overlaps = solution.problem, solution.overlaps
    status = Status.SAMPLED if solution.settled else Status.NOT_CONVERGED
    return ErmBranch(
        status=status,
        branch=name,
        test_risk=problem.risk(overlaps),
        objective=problem.objective(solution.means, overlaps),
        m_k=overlaps.m_k,
        m_v=overlaps.m_v,
    )


def no_solution(problem: Problem) -> ErmTheory:
    """Return the result of a search in which every start diverged."""
    numbers = (field.name for field in fields(ErmTheory) if field.type == "float")
    unknown: dict[str, Any] = dict.fromkeys(numbers, math.nan)
    ridges = (math.nan if r is None else r for r in (problem.ridge_k, problem.ridge_v))
    return ErmTheory(
        status=Status.DIVERGED,
        **unknown,
        stable=False,
        branch="none",
        branches=(),
        samples=0,
        steps=0,
        stiffness=problem.stiffness,
        setting=problem.setting(*ridges),
    )

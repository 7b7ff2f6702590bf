r"""Solutions of state evolution, and the result at a solution: risk, errors, stability, status.

Linear response turns the differences between the blocks of a sample into standard errors. This
module does not search for fixed points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from slrlab._result import Estimate, Status
from slrlab._types import FloatArray
from slrlab.model.setting import Setting
from slrlab.numerics.fixed_point import FixedPoint
from slrlab.theory.erm import codes
from slrlab.theory.erm.equations import Channel, ChannelMeans
from slrlab.theory.erm.overlaps import ORDER, Coordinate, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.stability import MOST_GAP, replicon, trace_gap

_MOST_UNSOLVED = 0.01  # fraction of samples whose prox did not settle (sparsemax: on a kink)


@dataclass(frozen=True)
class Solution:
    """A fixed point of one problem on one sample; ``steps`` counts all evaluations of the map."""

    problem: Problem
    fixed_point: FixedPoint
    channel: Channel
    steps: int

    @cached_property
    def overlaps(self) -> ErmOverlaps:
        """The order parameters at the fixed point."""
        return ErmOverlaps.from_vector(self.fixed_point.point)

    @cached_property
    def means(self) -> ChannelMeans:
        """The averages at the fixed point, each prox searched globally."""
        channel = self.channel
        channel = channel if channel.global_prox else replace(channel, global_prox=True)
        return channel.means(self.overlaps)

    @property
    def usable(self) -> bool:
        """Whether the iteration ended at finite numbers."""
        return not self.fixed_point.diverged and bool(np.isfinite(self.fixed_point.point).all())

    @property
    def settled(self) -> bool:
        """Whether the residual is small enough for a coarse sample."""
        end = self.fixed_point
        return end.converged or (end.stalled and end.residual < 0.02)

    @property
    def risk(self) -> float:
        """The test risk; infinite if the iteration did not settle."""
        return self.problem.risk(self.overlaps) if self.settled else math.inf


def measure(
    solution: Solution,
    name: str,
    branches: tuple[ErmBranch, ...],
    tolerance: float,
    response: Response | None = None,
) -> ErmTheory:
    """Return risk, errors, stability and status at a fixed point."""
    problem, overlaps = solution.problem, solution.overlaps
    end, channel = solution.fixed_point, solution.channel
    means = channel.means(overlaps, squares=True)
    x = overlaps.to_vector()
    if response is None:
        response = problem.response(channel, x)
    images, slope = problem.images(means, overlaps), problem.risk_slope(x)
    shifts = (images - images.mean(axis=0)) @ response.matrix.T
    remaining = response.matrix @ (images.mean(axis=0) - x)
    risk, risk_error = problem.risk(overlaps), Estimate.of(shifts @ slope).error
    eigenvalue = replicon(means, problem.alpha, overlaps)
    gap = trace_gap(means, problem.alpha, overlaps)
    stable = bool(eigenvalue < 1.0 and gap <= MOST_GAP)
    solved = end.converged or bool(
        np.abs(remaining).max() < 0.1 and abs(remaining @ slope) < risk_error
    )
    accurate = risk_error <= tolerance and means.mean("UNSOLVED") < _MOST_UNSOLVED
    forms = (problem, problem.other_form)
    here, there = (form.images(means.pooled, overlaps)[0] for form in forms)
    ridges = problem.ridges(means, overlaps)
    other_risk = risk + float(slope @ response.matrix @ (there - here))
    return ErmTheory(
        status=_status(end.diverged, solved, stable, accurate),
        test_risk=risk,
        test_risk_error=risk_error,
        test_risk_low=min(risk, other_risk),
        test_risk_high=max(risk, other_risk),
        train_mse=means.mean("LOSS"),
        objective=problem.objective(means, overlaps),
        **{key: getattr(overlaps, key) for key in ORDER},
        bias=overlaps.bias if problem.trains_bias else float(problem.activation.bias or 0.0),
        replicon=eigenvalue,
        stable=stable,
        bistable_fraction=means.mean("BISTABLE"),
        trace_gap=gap,
        branch=name,
        branches=branches,
        samples=channel.fields.size,
        steps=solution.steps,
        residual=end.residual,
        stiffness=problem.stiffness,
        setting=Setting(problem.task, problem.activation, problem.alpha, *ridges),
        errors=_errors(problem, overlaps, means, shifts, response),
    )


def _status(diverged: bool, solved: bool, stable: bool, accurate: bool) -> Status:
    if diverged:
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
    """Return standard errors, given how each block shifts the coordinates of the fixed point."""
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
        # the objective is stationary in the order parameters: only its own average varies
        "objective": problem.alpha * means.rows[:, codes.ENVELOPE],
    }
    return {name: Estimate.of(move).error for name, move in moves.items()}


def branch_of(name: str, solution: Solution) -> ErmBranch:
    """Return the summary of a fixed point, named after the start that led there."""
    problem, overlaps = solution.problem, solution.overlaps
    return ErmBranch(
        status=Status.SAMPLED if solution.settled else Status.NOT_CONVERGED,
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
        setting=Setting(problem.task, problem.activation, problem.alpha, *ridges),
    )

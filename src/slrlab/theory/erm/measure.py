r"""What is computed at a fixed point: risk, error bars, stability, status, as a result.

The spread of the blocks of a sample becomes an error bar by linear response. This module must not
know how fixed points are found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.numerics.fixed_point import FixedPoint
from slrlab.theory.erm import codes
from slrlab.theory.erm.equations import Channel, ChannelMeans
from slrlab.theory.erm.overlaps import Overlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.stability import MOST_GAP, jump_warning, replicon

_MOST_UNSOLVED = 0.01  # share of samples whose prox did not settle (sparsemax: on a kink)


@dataclass(frozen=True)
class Solution:
    """A fixed point on one sample, and what is computed there."""

    problem: Problem
    overlaps: Overlaps
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
    risk, risk_error = problem.risk(overlaps), _standard_error(shifts @ slope)
    eigenvalue = replicon(means, problem.alpha, overlaps)
    warning = jump_warning(means, problem.alpha, overlaps)
    stable = bool(eigenvalue < 1.0 and warning.trace_gap <= MOST_GAP)
    ridge_k, ridge_v = problem.ridges(means, overlaps)
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
        ridge_k=ridge_k,
        ridge_v=ridge_v,
        replicon=eigenvalue,
        stable=stable,
        bistable_fraction=warning.bistable_fraction,
        trace_gap=warning.trace_gap,
        branch=name,
        branches=branches,
        samples=channel.fields.size,
        steps=solution.steps,
        residual=solution.found.residual,
        errors=_errors(problem, overlaps, means, shifts, response),
        **describe(problem),
    )


ORDER = ("m_k", "m_v", "q_k", "q_v", "V_k", "V_v")


def describe(problem: Problem) -> dict[str, Any]:
    """Return the setting of a problem, as the fields of a result."""
    task = problem.task
    return {
        "alpha": problem.alpha,
        "task": task.name,
        "signal": task.signal,
        "length": task.length,
        "noise": task.noise,
        "activation": problem.activation.name,
        "stiffness": problem.stiffness,
    }


def _status(found: FixedPoint, solved: bool, stable: bool, accurate: bool) -> Status:
    if found.diverged:
        return Status.DIVERGED
    if not solved:
        return Status.NOT_CONVERGED
    if not stable:
        return Status.UNSTABLE
    return Status.SAMPLED if accurate else Status.INACCURATE


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size))


def _errors(
    problem: Problem,
    overlaps: Overlaps,
    means: ChannelMeans,
    shifts: FloatArray,
    response: Response,
) -> dict[str, float]:
    """Return standard errors from the shifts of the coordinates that each block asks for."""
    m_k, log_r_k, log_v_k, m_v, log_r_v, log_v_v, _ = shifts.T
    moves = {
        "m_k": m_k,
        "m_v": m_v,
        "q_k": 2.0 * overlaps.m_k * m_k + overlaps.R_k * log_r_k,
        "q_v": 2.0 * overlaps.m_v * m_v + overlaps.R_v * log_r_v,
        "V_k": overlaps.V_k * log_v_k,
        "V_v": overlaps.V_v * log_v_v,
        "train_mse": means.rows[:, codes.LOSS] + shifts @ response.loss_slope,
        # the objective is stationary in the order parameters: only its own average scatters
        "objective": problem.alpha * means.rows[:, codes.ENVELOPE],
    }
    return {name: _standard_error(move) for name, move in moves.items()}


def branch_of(name: str, solution: Solution) -> ErmBranch:
    """Return the summary of a fixed point, named after the start that led there."""
    problem, overlaps = solution.problem, solution.overlaps
    status = Status.SAMPLED if solution.settled else Status.NOT_CONVERGED
    return ErmBranch(
        status,
        name,
        problem.risk(overlaps),
        problem.objective(solution.means, overlaps),
        overlaps.m_k,
        overlaps.m_v,
    )


def no_solution(problem: Problem) -> ErmTheory:
    """Return the result of a search in which every start diverged."""
    unknown = {field.name: math.nan for field in fields(ErmTheory) if field.type == "float"}
    ridges = {
        name: math.nan if ridge is None else ridge
        for name, ridge in (("ridge_k", problem.ridge_k), ("ridge_v", problem.ridge_v))
    }
    rest: dict[str, Any] = {"stable": False, "branch": "none", "branches": ()}
    rest |= {"samples": 0, "steps": 0}
    return ErmTheory(status=Status.DIVERGED, **unknown | ridges | rest | describe(problem))

"""Moments of weights above a threshold (sparsemax, entmax, budgets, normmax), without sampling.

The scores are ``y = χ/unit``; with ``h(u) = u₊^power`` a projection gives a token the weight
``h(y − τ)``, cut at 1 if the weights sum to more than 1, and normmax a weight proportional to
``h'(y − τ)``. All moments are integrals over the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.activations import Projection
from slrlab.model.families import NormMax
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import panels
from slrlab.numerics.threshold import (
    Averages,
    ComplexArray,
    ThresholdRule,
    coefficient,
    missing_below,
    reciprocal_rule,
    threshold_rule,
)
from slrlab.theory.moments.nodes import edge, gauss_weights, key_nodes
from slrlab.theory.moments.selected import selection_grid
from slrlab.theory.moments.types import AttentionMoments

_STEP = 0.5  # step of the threshold, in standard deviations of the largest score
_FINER = 0.8  # factor of that step for normmax
_COARSE = 0.7  # panels and steps at resolution 1, for ten digits
_MOST_ENTRIES = 4_000_000  # largest matrix of thresholds and scores above them
_SLOPE = 8.0  # slope of the log posterior that the panels of a selection task resolve
_STEEPEST = 32.0  # slope beyond which sampling is cheaper on a selection task
_FADED = 60.0  # exponent from which a factor is zero
_MOST_CUT = 2  # budget on a task whose location is the argmax


def threshold_moments(
    task: Task, activation: Projection | NormMax, m_k: float, R_k: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments of a projection; None where no rule of this module is good for them.

    A rule needs the density of the scores of all tokens, and a width of the scores that is not
    small against the weights.
    """
    resolution = _COARSE * resolution
    unit = activation.power if isinstance(activation, Projection) else 1.0
    m, width = m_k / unit, math.hypot(m_k, math.sqrt(R_k)) / unit
    rules = _Rules.build(task, activation, m, width, resolution)
    if rules is None:
        return None
    if isinstance(task, TiltedTask) and (task.gaussian_shift is not None or R_k == 0.0):
        return rules.tilted(task, m)
    if not (isinstance(task, SelectionTask) and R_k == 0.0 and m > 0.0):
        return None
    ruled = rules.budget <= _MOST_CUT if task.hard else task.steepness <= _STEEPEST
    return rules.selected(task) if ruled else None


@dataclass(frozen=True)
class _Rules:
    """Thresholds ``x``, their step, and the rule for each number of tokens that are cut at 1."""

    power: float
    budget: int
    rooted: bool
    width: float
    resolution: float
    x: FloatArray
    step: float
    parts: tuple[ThresholdRule, ...]

    @classmethod
    def build(
        cls, task: Task, activation: Projection | NormMax, m: float, width: float, resolution: float
    ) -> _Rules | None:
        """Return the rules; None if their grids would be too large."""
        power, reach = activation.power, edge(task) * width
        budget = activation.budget if isinstance(activation, Projection) else 1
        low, high = -reach, reach
        if isinstance(task, TiltedTask):
            first, last = sorted(m * end for end in task.relevant_interval)
            if task.gaussian_shift is not None:
                first, last = (m * task.gaussian_shift + side * 9.3 * width for side in (-1.0, 1.0))
            # the threshold is below a token that is among the largest
            low, high = first if budget == 1 else min(first, low), max(last, high)
        low -= 1.0  # the tokens of the budget reach their sum one unit below the last of them
        narrow = 1.0 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
        rooted = isinstance(activation, NormMax)
        step = _COARSE * _STEP * width * narrow / resolution
        if rooted:  # the density of a sum is less smooth in the threshold than its law
            step *= _FINER
        fine = width
        if isinstance(task, SelectionTask) and not task.hard:
            fine /= max(1.0, task.steepness / _SLOPE)
        if not (high - low) ** 2 / (step * fine) < _MOST_ENTRIES / 12:
            return None
        parts = tuple(
            threshold_rule(power, fine, high - low, resolution, budget - n, budget > 1)
            for n in range(budget)
        )
        x = np.arange(low, high, step)
        return cls(power, budget, rooted, width, resolution, x, step, parts)

    def tilted(self, task: TiltedTask, m: float) -> AttentionMoments:
        """Return the moments for independent tokens; ``m`` is the overlap in units of ``y``."""
        target = rest = energy = 0.0
        for n, rule in enumerate(self.parts):
            y = self.x[:, None] + rule.u
            others = gauss_weights(y / self.width, 1.0 / self.width) * rule.weights
            if task.gaussian_shift is not None:
                away = (y - m * task.gaussian_shift) / self.width
                relevant = gauss_weights(away, 1.0 / self.width) * rule.weights
            else:
                relevant = others * np.exp(np.minimum(task.log_ratio(y / m), 700.0))
            own, other = (Averages(rule, law, n) for law in (relevant, others))
            g0, g1 = other.powers(task.length.generating)
            target += self._moment(n, own.first, g0)
            rest += self._moment(n, other.first, own.zero, g1)
            if self.rooted:
                energy += self._rooted_energy(task, rule, others, relevant)
            else:
                energy += self._moment(n, own.second, g0)
                energy += self._moment(n, other.second, own.zero, g1)
        return self._moments(task, target, rest, energy)

    def selected(self, task: SelectionTask) -> AttentionMoments:
        """Return the moments where the location is selected: all tokens are ``N(0, width²)``."""
        target = total = energy = 0.0
        for n, rule in enumerate(self.parts):
            y = self.x[:, None] + rule.u
            tokens = gauss_weights(y / self.width, 1.0 / self.width) * rule.weights
            average = Averages(rule, tokens, n)
            multiple = average.multiples(task.length.generating)
            total += self._moment(n, average.first, multiple)
            if self.rooted:
                energy += self._rooted_energy(task, rule, tokens)
            else:
                energy += self._moment(n, average.second, multiple)
            if not task.hard:
                target += self._selected_first(task, rule, (y, tokens), n)
        if task.hard:
            target = self._largest_weight(task)
        return self._moments(task, target, total - target, energy)

    def _moment(self, n: int, *factors: Sequence[ComplexArray]) -> float:
        """Return the coefficient of ``wⁿ`` of a product, transformed back and integrated."""
        rule = self.parts[n]
        series = rule.density if self.rooted else rule.series
        columns = coefficient(n, *factors).reshape(-1, series.size).sum(axis=0)
        return self.step * float((columns @ series).real)

    def _moments(self, task: Task, target: float, rest: float, energy: float) -> AttentionMoments:
        if self.budget > 1:
            spent = sum(p * min(n, self.budget) for n, p in task.length.pairs())
            defect, unexplained = abs(target + rest - spent), energy - target**2
            return AttentionMoments(target, 1.0 - target, max(0.0, unexplained), defect)
        # the weights sum to 1: B − A² = (B − 1) + 2(1−A) − (1−A)²
        unexplained = max(0.0, (energy - 1.0) + rest * (2.0 - rest))
        return AttentionMoments(target, rest, unexplained, abs(target + rest - 1.0))

    def _rooted_energy(
        self,
        task: Task,
        rule: ThresholdRule,
        tokens: FloatArray,
        relevant: FloatArray | None = None,
    ) -> float:
        """Return ``E Σ g²/(Σ g)²``, ``g = u^(power−1)``, by one more Laplace variable ``s``.

        ``Σ g`` is at least 1, because ``Σ u^power`` is 1 and no ``u`` is above it. Without a law of
        the relevant token all have the same.
        """
        g = rule.u ** (self.power - 1.0)
        decay = rule.first / (self.power * g)[:, None]
        generating, energy = task.length.generating, 0.0
        largest = task.length.longest ** (1.0 / self.power)
        for s, weight in zip(*reciprocal_rule(largest, self.resolution), strict=True):
            missing = rule.missing - np.expm1(-s * g)[:, None] * decay
            square = (g**2 * np.exp(-s * g))[:, None] * decay
            other = Averages(rule, tokens, 0, missing)
            factors = [rule.average(tokens, square)]
            if relevant is None:
                value = self._moment(0, factors, other.multiples(generating))
            else:
                g0, g1 = other.powers(generating)
                own = Averages(rule, relevant, 0, missing)
                value = self._moment(0, factors, own.zero, g1)
                value += self._moment(0, [rule.average(relevant, square)], g0)
            energy += self.power * weight * value
        return energy

    def _selected_first(
        self,
        task: SelectionTask,
        rule: ThresholdRule,
        grid: tuple[FloatArray, FloatArray],
        n: int,
    ) -> float:
        """Return the part of ``E[σ_ε]`` with ``n`` tokens cut, a sum over selection variables."""
        y, tokens = grid
        nodes, spacing = key_nodes(task, task.steepness, self.resolution)
        law = gauss_weights(nodes, spacing)
        u, weights = selection_grid(task, nodes, law, self.resolution, sharpness=math.inf)
        log_w = task.log_weight(y / self.width)
        lost = -np.expm1(-np.exp(np.minimum(u[:, None] + task.log_weight(nodes), 700.0))) @ law
        # a row matters where a score at which the slope is not small can be the selected one
        sizes = np.abs([slope[:, 0] for slope in (rule.first, *rule.cut[1:2])]).sum(axis=0)
        near = log_w[:, sizes > math.exp(-_FADED) * sizes.max()]
        lowest, highest = near.min(axis=1), near.max(axis=1)
        total = 0.0
        for s, weight, gone in zip(u, weights, lost, strict=True):
            rows = (s + lowest < math.log(_FADED)) & (s + highest > -_FADED)
            if not rows.any():
                continue
            race = np.exp(np.minimum(s + log_w[rows], 700.0))
            stay = tokens[rows] * np.exp(-race)
            others = Averages(rule, stay, n, gone=min(float(gone), 1.0 - 1e-16))
            picked = Averages(rule, race * stay, n)
            total += weight * self._moment(
                n, picked.first, others.multiples(task.length.generating)
            )
        return total

    def _largest_weight(self, task: SelectionTask) -> float:
        """Return the mean of the largest weight: at an infinite signal it is that of the location.

        Given the largest score ``y``, all others lie below it: ``u < v`` where ``v = y − x``. Where
        it is cut at 1, at most one other token is (a budget of 2), and needs no such bound.
        """
        reach, width = edge(task) * self.width, self.width
        narrow = 1.0 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
        top, weights = panels(np.arange(-reach, reach, width * narrow), self.resolution)
        density = gauss_weights(top / width, 1.0 / width) * weights
        beyond = special.ndtr(-top / width)[:, None]
        rule = threshold_rule(self.power, width, 2.0 * reach, self.resolution, self.budget)
        share, share_weights = panels(np.linspace(0.0, 1.0, 7), self.resolution)
        sums = np.zeros(rule.series.size, dtype=complex)
        for i, v in enumerate(rule.u):
            below = top[:, None] - v * (1.0 - share)
            law = gauss_weights(below / width, v / width) * share_weights
            part = missing_below(v * share, self.power, self.budget)
            average = Averages(rule, law, 0, part, gone=beyond)
            sums += (
                rule.weights[i]
                * rule.first[i]
                * (density @ average.multiples(task.length.generating)[0])
            )
        integral = float((sums @ (rule.density if self.rooted else rule.series)).real)
        if self.budget == 1:
            return integral
        last = self.parts[1]
        y = self.x[:, None] + last.u
        tokens = gauss_weights(y / width, 1.0 / width) * last.weights
        cut = [last.average(tokens, last.cut[1])]
        multiple = Averages(last, tokens, 0).multiples(task.length.generating)
        columns = coefficient(0, cut, multiple).sum(axis=0)
        return integral + self.step * float((columns @ last.series).real)

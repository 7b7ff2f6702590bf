r"""The output channel of spiked-SLR: the density ratio is an exponential of a Gaussian score.

Then ``R = e^{a·n − a²/2}``, ``a = √(ν q_k)``: the table of `slrlab.theory.bayes_optimal.tilted` is
that of a log-normal, ``(∂ log R)² = ν`` is a constant, and the risk given ``ω_χ`` alone is the
Bayes risk at signal ``ν·q_k``.
"""

# notation: docs/notation.md, "Laplace variables" and "Finite samples"
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import SpikedSLR, TiltedTask
from slrlab.numerics.lognormal import LognormalTable
from slrlab.numerics.simplex import STEP
from slrlab.theory.bayes_optimal.overlaps import BayesOverlaps
from slrlab.theory.bayes_optimal.tilted import DEPTH, REACH, TiltedChannel, TokenLaw
from slrlab.theory.moments.nodes import laplace_step
from slrlab.theory.population.bayes_risk import bayes_risk

_CERTAIN = 20.0  # a beyond which the location is known up to e^{−a²/4}
_NEGLIGIBLE = 2500.0  # signal beyond which the Bayes risk, e^{−ν/4}, is below 1e-250


@dataclass(frozen=True)
class SpikedChannel(TiltedChannel):
    """Moments of the channel on grids finer by the factor ``resolution`` than the default."""

    task: SpikedSLR

    @classmethod
    def known_key(cls, task: TiltedTask) -> float | None:
        """Return ``ν`` for one token or an infinite signal."""
        known = task.length.longest == 1 or math.isinf(task.signal)
        return task.signal if known else None

    @cached_property
    def blind(self) -> bool:
        """False: without a signal ``M_k`` is zero everywhere."""
        return False

    def confusion(self, overlaps: BayesOverlaps) -> float:
        """Return the noiseless Bayes risk at signal ``ν·q_k``."""
        signal = self.task.signal * overlaps.q_k
        if signal > _NEGLIGIBLE:
            return 0.0
        return bayes_risk(SpikedSLR(signal, self.task.length)).risk

    def _law(self, overlaps: BayesOverlaps) -> TokenLaw:
        a = math.sqrt(self.task.signal * overlaps.q_k)
        half, grid = a**2 / 2.0, partial(self._grid, a)
        return TokenLaw(grid, half, half, self.task.signal, certain=a > _CERTAIN)

    def _grid(self, a: float) -> tuple[FloatArray, LognormalTable]:
        """Return the grids of ``ψ = e^{a·n − r²/2}``; ``log ψ_ε ~ N(a², a²)``."""
        longest = self.task.length.longest
        left = -(a**2) - math.sqrt(2.0 * DEPTH) * a - DEPTH - math.log(longest)
        # to the right, log ψ_ε < −u is cheapest by r² alone while a is small, by n alone later
        slack = DEPTH - a**2 / 2.0
        right = 3.0 + (slack if slack > 0.0 else math.sqrt(2.0 * DEPTH) * a - a**2)
        step = max(STEP, laplace_step(a, longest)) / self.resolution
        u = np.arange(left, right + step, step)
        low, high = float(u[0]) - REACH**2 / 2.0, float(u[-1])
        return u, LognormalTable.build(a, low, high, self.resolution)

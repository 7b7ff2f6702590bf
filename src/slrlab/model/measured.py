"""A task whose law of the relevant score was measured instead of given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLike
from slrlab.model.tasks import TiltedTask
from slrlab.numerics.splines import natural_basis

_REACH = 9.3  # standard deviations: mass 1e-20 beyond


@dataclass(frozen=True, init=False)
class MeasuredTask(TiltedTask):
    """Tilted task whose log density ratio is a natural cubic spline.

    Parameters
    ----------
    signal
        Effective signal: that of the spiked-SLR with the same Bayes risk. It only names the task.
    length, noise
        As for every task.
    knots, slopes
        Knots of the spline, and the coefficients of its basis
        (`slrlab.numerics.splines.natural_basis`). Two knots: a linear log ratio, as spiked-SLR.
    """

    knots: tuple[float, ...] = (-1.0, 1.0)
    slopes: tuple[float, ...] = (0.0,)

    name: ClassVar[str] = "measured"

    def __init__(
        self,
        signal: float,
        length: LengthLike,
        noise: float = 0.0,
        knots: tuple[float, ...] = (-1.0, 1.0),
        slopes: tuple[float, ...] = (0.0,),
    ) -> None:
        object.__setattr__(self, "knots", tuple(map(float, knots)))
        object.__setattr__(self, "slopes", tuple(map(float, slopes)))
        super().__init__(signal, length, noise)

    @property
    def parameters(self) -> dict[str, Any]:
        """Signal, length and noise: knots and slopes are a measured curve."""
        own = super().parameters
        return {name: own[name] for name in own if name not in ("knots", "slopes")}

    def __post_init__(self) -> None:
        super().__post_init__()
        rising = len(self.knots) >= 2 and bool((np.diff(self.knots) > 0.0).all())
        if not (rising and len(self.slopes) == len(self.knots) - 1):
            raise ValueError(
                "knots must be two or more increasing numbers, with a slope for each but one, got "
                f"{len(self.knots)} knots and {len(self.slopes)} slopes"
            )

    def _spline(self, x: FloatArray) -> FloatArray:
        return np.asarray(natural_basis(x, np.array(self.knots)) @ np.array(self.slopes))

    @cached_property
    def _log_mass(self) -> float:
        low, high = self.relevant_interval
        x = np.linspace(low, high, 20001)
        log_density = self._spline(x) - x**2 / 2.0
        top = log_density.max()
        step = (high - low) / 20000.0 / np.sqrt(2.0 * np.pi)
        return float(top + np.log(np.exp(log_density - top).sum() * step))

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        return self._spline(np.asarray(scores, dtype=float)) - self._log_mass

    @property
    def steepness(self) -> float:
        x = np.linspace(self.knots[0], self.knots[-1], 201)
        slopes = np.diff(self._spline(x)) / (x[1] - x[0])
        return max(1.0, float(np.abs(slopes).max()))

    @property
    def relevant_interval(self) -> tuple[float, float]:
        # outside the knots the density is that of a shifted normal
        first, last = self.knots[0], self.knots[-1]
        left, right = self._slope_at(first - 1.0), self._slope_at(last + 1.0)
        return min(first, left) - _REACH, max(last, right) + _REACH

    def _slope_at(self, x: float) -> float:
        before, after = self._spline(np.array([x - 0.5, x + 0.5])).tolist()
        return float(after - before)

    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.relevant_scores(rng.random(size))

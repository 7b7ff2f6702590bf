r"""One set of state-evolution equations: the map, the risk, and the response to sampling errors.

A `Problem` joins a task, an activation, ``α`` and, for keys and values each, either the ridge or
the variance ``V``. At fixed ``V`` the ridge follows from the solution, which removes an equation.
This module evaluates the equations; `slrlab.theory.erm.solve` solves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.model.traits import degree
from slrlab.numerics.differences import central_differences
from slrlab.theory.erm.equations import Channel, ChannelMeans, Stiffness
from slrlab.theory.erm.overlaps import Coordinate, ErmConjugates, ErmOverlaps
from slrlab.theory.moments import AttentionMoments, attention_moments

_DIFFERENCE = 0.1  # wide enough to average over the jumps of a small sample
_RESOLUTION = 0.75  # resolution of the risk: six digits, more than sampling has
_RAY = 8.0  # α times the variance of keys of any length: their scores are then of order 1


@lru_cache(maxsize=16)
def _moments(task: Task, activation: Activation, m_k: float, R_k: float) -> AttentionMoments:
    """Return the moments of given keys; searches ask for the same keys with several values."""
    return attention_moments(task, activation, m_k, R_k, resolution=_RESOLUTION, check=False)


@dataclass(frozen=True)
class Response:
    """Linear response of a fixed point: ``(1 − J)⁻¹``, and the slope of the training error."""

    matrix: FloatArray
    loss_slope: FloatArray


@dataclass(frozen=True)
class Problem:
    """The equations of one setting; of ``ridge_a`` and ``V_a`` exactly one is a number.

    Where the length of the keys has no effect on the weights, both ``ridge_k = 0`` and ``V_k`` are:
    the solutions at this ridge form a ray, on which the variance marks a point.

    ``stiffness`` is the form of ``V̂`` in the equations.
    """

    task: Task
    activation: Activation
    alpha: float
    ridge_k: float | None = None
    ridge_v: float | None = None
    V_k: float | None = None
    V_v: float | None = None
    stiffness: Stiffness = "stein"

    @classmethod
    def of(
        cls,
        task: Task,
        activation: Activation,
        alpha: float,
        *,
        ridge_k: float | None = None,
        ridge_v: float | None = None,
        stiffness: Stiffness = "stein",
    ) -> Problem:
        """Return the problem with given ridges, or with free ones.

        Raises
        ------
        ValueError
            If keys of any length give the same weights, and a ridge would shrink them without end.
        """
        V_k = None
        if degree(activation) == 0.0:
            if ridge_k:
                accepted = f"0 for {activation.name}, whose weights keys of any length share"
                _checks.fail("ridge_k", accepted, ridge_k)
            ridge_k, V_k = 0.0, _RAY / alpha
        return cls(task, activation, alpha, ridge_k, ridge_v, V_k, None, stiffness)

    @property
    def trains_bias(self) -> bool:
        """Whether the bias is learned along with the vectors."""
        return self.activation.bias is None

    @property
    def other_form(self) -> Problem:
        """The same problem with the other form of ``V̂``."""
        return replace(self, stiffness="trace" if self.stiffness == "stein" else "stein")

    @property
    def _moving(self) -> list[Coordinate]:
        """All coordinates except a bias that is given."""
        return [i for i in Coordinate if self.trains_bias or i is not Coordinate.BIAS]

    def images(self, means: ChannelMeans, overlaps: ErmOverlaps) -> FloatArray:
        """Return, for each row of the means, the coordinates that the equations map to."""
        with np.errstate(all="ignore"):
            hats = means.conjugates(self.alpha, overlaps, self.stiffness)
            steps = means.bias_steps().tolist() if self.trains_bias else [0.0] * len(hats)
            rows = zip(hats, steps, strict=True)
            return np.array([self._image(hat, overlaps.bias + step) for hat, step in rows])

    def _image(self, hats: ErmConjugates, bias: float) -> FloatArray:
        V_k, V_v = hats.variances(self.ridge_k or 0.0, self.ridge_v or 0.0)
        V_k, V_v = self.V_k or V_k, self.V_v or V_v
        if not (math.isfinite(V_k) and math.isfinite(V_v)):
            return np.full(len(Coordinate), math.nan)
        return hats.overlaps(V_k, V_v, bias).to_vector()

    def step(
        self, channel: Channel, *, remembered: bool = False
    ) -> Callable[[FloatArray], FloatArray]:
        """Return the map of coordinates whose fixed points solve the equations."""

        def function(x: FloatArray) -> FloatArray:
            try:
                overlaps = ErmOverlaps.from_vector(x)
            except OverflowError:
                return np.full(x.shape, math.nan)
            means = channel.means(overlaps, remembered=remembered)
            return np.asarray(self.images(means.pooled, overlaps)[0])

        return function

    def ridges(self, means: ChannelMeans, overlaps: ErmOverlaps) -> tuple[float, float]:
        """Return the ridges, given or implied by the variances."""
        (hats,) = means.pooled.conjugates(self.alpha, overlaps, self.stiffness)
        r_k, r_v = hats.ridges(overlaps.V_k, overlaps.V_v)
        r_k = r_k if self.ridge_k is None else self.ridge_k
        return r_k, r_v if self.ridge_v is None else self.ridge_v

    def objective(self, means: ChannelMeans, overlaps: ErmOverlaps) -> float:
        """Return the training objective per dimension, ``½αEρ² + ½Σ r_a q_a``."""
        r_k, r_v = self.ridges(means, overlaps)
        loss = 0.5 * self.alpha * means.mean("LOSS")
        return loss + 0.5 * (r_k * overlaps.q_k + r_v * overlaps.q_v)

    def risk(self, overlaps: ErmOverlaps) -> float:
        """Return the test risk, by the quadrature of the population theory."""
        fixed = self.activation.with_bias(overlaps.bias) if self.trains_bias else self.activation
        moments = _moments(self.task, fixed, overlaps.m_k, overlaps.R_k)
        return self.task.noise**2 + moments.risk(overlaps.m_v, overlaps.R_v)

    def risk_slope(self, x: FloatArray) -> FloatArray:
        """Return the gradient of the risk in the coordinates."""
        slope = np.zeros(x.size)
        slope[self._moving] = central_differences(
            lambda point: self.risk(ErmOverlaps.from_vector(point)), x, 1e-3, self._moving
        )
        return slope

    def response(self, channel: Channel, x: FloatArray, *, remembered: bool = False) -> Response:
        """Return the response of the fixed point to a shift of the map.

        The Jacobian of the pooled map is taken by central differences. The same matrix turns the
        differences between blocks into standard errors and the residual into a Newton step.
        """

        def image_and_loss(point: FloatArray) -> FloatArray:
            overlaps = ErmOverlaps.from_vector(point)
            means = channel.means(overlaps, remembered=remembered).pooled
            return np.append(self.images(means, overlaps)[0], means.mean("LOSS"))

        jacobian, loss = np.zeros((x.size, x.size)), np.zeros(x.size)
        slopes = central_differences(image_and_loss, x, _DIFFERENCE, self._moving)
        jacobian[:, self._moving], loss[self._moving] = slopes[:, :-1].T, slopes[:, -1]
        if not np.isfinite(jacobian).all():
            return Response(np.eye(x.size), np.zeros(x.size))
        inverse = np.linalg.pinv(np.eye(x.size) - jacobian, rcond=1e-10)
        return Response(np.asarray(inverse), loss)

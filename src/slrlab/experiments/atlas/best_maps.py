r"""The best map of each family, found numerically beside its closed form.

*Elementwise*: ``A²/B`` is a quotient of quadratic forms in ``φ``, largest at
``φ(x) = P(ε = ℓ | χ*_ℓ = x)``. On a tilted task this is ``r/(r + L̄ − 1)``, a logistic for
spiked-SLR.
*Normalised*: ``φ(χ)/Σφ(χ)`` is the posterior if ``log φ`` is its log: the exponential.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import SOFTPLUS
from slrlab.model.arrangements import ArrangementTask, check_family
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task, TiltedTask
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.key_sample import BLOCKS, KeySample, draw_keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REACH = 4.0  # scores beyond the typical ones on which a map is free
_LOG2_SIZE = 8  # log2 of the sequences in a block of the sample for the fit
_CHECK = 10  # log2 of the sequences in a block of the fresh sample for the test


@dataclass(frozen=True)
class BestMap(Result):
    """The best map of a family, computed on knots, beside its closed form.

    Attributes
    ----------
    scores
        Key scores at which the maps are given.
    values, exact
        The computed map and its closed form; logs, up to a constant, of a normalised map.
    risk, exact_risk
        Risk of the computed map, and of the closed form.
    error
        Numerical error of ``risk``; of a sampled one, the standard error.
    """

    scores: FloatArray
    values: FloatArray
    exact: FloatArray
    risk: float
    exact_risk: float
    error: float
    setting: Setting

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the computed map as points on its closed form."""
        axes = axes_of(ax)
        axes.plot(self.scores, self.exact, color="0.4", label="closed form")
        axes.plot(self.scores, self.values, "o", color="#D55E00", label="computed")
        axes.set(xlabel="key score", ylabel="map")
        axes.legend()
        return axes


def best_elementwise(task: TiltedTask, *, knots: int = 41) -> BestMap:
    r"""Return the best elementwise map among those that are linear between knots.

    With hat functions ``h``, ``a = E h(χ*_ε)`` and ``M = E Σ_ℓ h(χ*_ℓ) h(χ*_ℓ)ᵀ`` the largest
    ``A²/B`` is ``aᵀM⁻¹a``, at the coefficients ``M⁻¹a``. The risk exceeds that of the closed form
    ``r/(r + L̄ − 1)`` by the fourth power of the spacing of the knots.

    Parameters
    ----------
    task
        A tilted task with a finite signal.
    knots
        Number of points between which the map is linear.

    Returns
    -------
    BestMap
        The map at its knots and its risk.

    Raises
    ------
    TypeError
        If the task is not a tilted one.
    ValueError
        If its signal is infinite.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> best = best_elementwise(SpikedSLR(signal=9.0, length=10))
    >>> print(f"{best.risk:.5f} {best.exact_risk:.5f}")
    0.25396 0.25396
    """
    if not isinstance(task, TiltedTask):
        _checks.fail("task", "a TiltedTask", type(task).__name__, TypeError)
    x = np.linspace(*_ends(task), _checks.integer(knots, "knots", low=3))
    low, high = task.relevant_interval
    nodes = np.linspace(min(low, -9.0), max(high, 9.0), 40001)
    others = np.exp(-(nodes**2) / 2.0) * (nodes[1] - nodes[0]) / math.sqrt(2.0 * math.pi)
    relevant = others * np.exp(np.minimum(task.log_ratio(nodes), 700.0))
    rest = task.length.mean - 1.0
    hats = np.stack([np.interp(nodes, x, row) for row in np.eye(x.size)])
    target = hats @ relevant
    energy = (hats * (relevant + rest * others)) @ hats.T
    values = np.linalg.solve(energy, target)
    odds = math.log(rest) if rest > 0.0 else -math.inf
    return BestMap(
        status=Status.CONVERGED,
        scores=x,
        values=values,
        exact=special.expit(task.log_ratio(x) - odds),
        risk=task.noise**2 + 1.0 - float(target @ values),
        exact_risk=task.noise**2 + float(special.expit(odds - task.log_ratio(nodes)) @ relevant),
        error=abs(float(relevant.sum()) - 1.0),
        setting=Setting(task),
    )


def best_normalised(task: Task, *, knots: int = 13, seed: int = 0) -> BestMap:
    r"""Return the best ``φ(χ)/Σφ(χ)`` among maps whose log rises linearly between knots.

    ``E‖p − bσ‖²``, the excess, is minimised on a sample over ``b`` and the slopes of ``log φ``, all
    ``>= 0``; the start is softplus. The risk is that on a fresh sample. The closed form of
    ``log φ`` is the log posterior, which is linear in the score for the tasks of the paper; a task
    with several kinds of tokens has none.

    Parameters
    ----------
    task
        A task with a finite signal, short enough to be sampled.
    knots
        Number of points between which the log of the map is linear.
    seed
        Seed of both samples.

    Returns
    -------
    BestMap
        The map at its knots and its risk with a standard error.

    Raises
    ------
    ValueError
        If the signal is infinite, or sequences are too long for a sample.

    Examples
    --------
    >>> from slrlab import SpikedSLR, best_normalised
    >>> best = best_normalised(SpikedSLR(signal=2.0, length=3), knots=7)
    >>> print(f"{best.risk:.5f} {best.exact_risk:.5f}")
    0.35242 0.35242
    """
    from scipy.optimize import least_squares

    check_family(task)
    if math.isinf(task.signal):
        _checks.fail("signal", "finite", task.signal)
    x = np.linspace(*_ends(task), _checks.integer(knots, "knots", low=3))
    fitted, fresh = (draw_keys(task, size, seed + i) for i, size in enumerate((_LOG2_SIZE, _CHECK)))
    fit = _NormalisedFit(x, fitted)
    softplus = np.diff(SOFTPLUS.log_phi(2.0 * x)) / np.diff(x)
    done = least_squares(
        fit.residuals,
        np.array([1.0, *softplus]),
        jac=fit.jacobian,
        bounds=(0.0, np.inf),
    )
    excess = Estimate.of(_NormalisedFit(x, fresh).block_excess(done.x))
    values = np.concatenate([[0.0], np.cumsum(done.x[1:] * np.diff(x))])
    exact, middle = np.full_like(x, math.nan), x.size // 2
    if not isinstance(task, ArrangementTask):  # else the posterior is not such a map
        exact = task.log_posterior(x)
    least = bayes_risk(task).risk
    return BestMap(
        status=Status.SAMPLED if done.success else Status.NOT_CONVERGED,
        scores=x,
        values=values - values[middle],
        exact=exact - exact[middle],
        risk=least + excess.value,
        exact_risk=least,
        error=excess.error,
        setting=Setting(task),
    )


def _ends(task: Task) -> tuple[float, float]:
    """Return the ends of the scores on which a map is free: beyond, it goes on as it ends."""
    if isinstance(task, TiltedTask):
        if math.isinf(task.signal):
            _checks.fail("signal", "finite", task.signal)
        mean, square = task.relevant_moments()
        return -_REACH, max(_REACH, mean + _REACH * math.sqrt(square - mean**2))
    return -_REACH, _REACH


@dataclass(frozen=True)
class _NormalisedFit:
    """Residuals ``bσ − p`` of a sample, weighted so that their squares sum to the excess.

    The parameters are ``b`` and the slopes of ``log φ`` between the knots; the first and the last
    slope hold beyond them.
    """

    knots: FloatArray
    sample: KeySample

    def _ramps(self, keys: FloatArray) -> FloatArray:
        """Return what each slope adds to ``log φ``, on a new last axis."""
        low, high = self.knots[:-1].copy(), self.knots[1:].copy()
        low[0], high[-1] = -np.inf, np.inf
        return np.asarray(np.clip(keys[..., None], low, high) - np.clip(0.0, low, high))

    def _pieces(self, point: FloatArray) -> Any:
        """Yield weights, posterior and ramps of each length, and the root of its share."""
        for probability, keys, p in self.sample.groups:
            ramps = self._ramps(keys)
            log_phi = ramps @ point[1:]
            phi = np.exp(log_phi - log_phi.max(axis=-1, keepdims=True))
            sigma = phi / phi.sum(axis=-1, keepdims=True)
            yield sigma, p, ramps, math.sqrt(probability / (keys.size / keys.shape[-1]))

    def residuals(self, point: FloatArray) -> FloatArray:
        """Return the residuals of all tokens."""
        parts = [root * (point[0] * s - p).ravel() for s, p, _, root in self._pieces(point)]
        return np.concatenate(parts)

    def jacobian(self, point: FloatArray) -> FloatArray:
        """Return their derivatives, a column for each parameter."""
        parts = []
        for sigma, _, ramps, root in self._pieces(point):
            mean = (sigma[..., None] * ramps).sum(axis=-2, keepdims=True)
            slopes = point[0] * sigma[..., None] * (ramps - mean)
            rows = np.concatenate([sigma[..., None], slopes], axis=-1)
            parts.append(root * rows.reshape(-1, point.size))
        return np.concatenate(parts)

    def block_excess(self, point: FloatArray) -> FloatArray:
        """Return ``E‖p − bσ‖²`` in each block."""
        total = np.zeros(BLOCKS)
        for sigma, p, _, root in self._pieces(point):
            square = ((point[0] * sigma - p) ** 2).sum(axis=(-1, -2))
            total += BLOCKS * root**2 * square
        return total

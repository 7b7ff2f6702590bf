r"""The Bayes risk of a task, twice: ``1 − E[p_ε]`` and ``1 − E Σ p_ℓ²`` (Prop. 4.1).

The two are equal by the Nishimori identity but come from different integrals, so their gap checks
both. No activation enters here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab.model.arrangements import ArrangementTask
from slrlab.model.dispatch import lookup
from slrlab.model.marion import MarionSLR
from slrlab.model.setting import Setting
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics import selection
from slrlab.numerics.blas import one_blas_thread
from slrlab.numerics.simplex import STEP, LaplaceGrid, independent_moments, token_factors
from slrlab.numerics.steep import STEEP, aligned_moments, missing_energy, softmax_first
from slrlab.theory.moments.nodes import gauss_weights, key_nodes, laplace_step, tilted_nodes
from slrlab.theory.moments.selected import selection_grid
from slrlab.theory.moments.steep import value_grid
from slrlab.theory.population.arranged import arranged_risk
from slrlab.theory.population.marion_bayes import KNOWLEDGE, marion_risks

_RESOLUTIONS = (1.0, 1.35)


@dataclass(frozen=True)
class BayesRisk(Result):
    """The least risk of any predictor.

    Attributes
    ----------
    risk
        ``Δ² + 1 − E Σ p_ℓ²``.
    nishimori_gap
        Relative difference between the two forms of the noiseless risk.
    error
        Estimate of the numerical error of ``risk``; a standard error if it is sampled.
    """

    risk: float
    nishimori_gap: float
    error: float
    setting: Setting

    @property
    def posterior_weight(self) -> float:
        """``E[p_ε]``: mean posterior probability of the relevant token."""
        return self.setting.task.trivial_risk - self.risk


@one_blas_thread
def bayes_risk(task: Task, *, knows: str = "keys", dim: int | None = None) -> BayesRisk:
    r"""Return the Bayes risk ``Δ² + 1 − E[p_ε] = Δ² + 1 − E Σ p_ℓ²``.

    No digits cancel (at most a factor 2), so that a risk of 1e-40 is as accurate as one of 1.

    Parameters
    ----------
    task
        The task. On `slrlab.MarionSLR` the risk depends on what a predictor sees of a token; on
        all other tasks the next two arguments change nothing.
    knows
        ``"keys"``: least risk of attention whose weights are any function of the key scores.
        ``"scores"``: least risk of any predictor that sees key and value scores. ``"tokens"``: of
        any predictor that sees whole tokens.
    dim
        Dimension of the tokens, for ``knows="tokens"``.

    Returns
    -------
    BayesRisk
        The risk, an estimate of its error, and the relative difference of its two forms.

    Raises
    ------
    TypeError
        If the task belongs to no family.
    ValueError
        If the knowledge is unknown, or the dimension is missing.

    Examples
    --------
    >>> from slrlab import MarionSLR, SpikedSLR, bayes_risk
    >>> print(f"{bayes_risk(SpikedSLR(signal=400.0, length=2)).risk:.8e}")
    1.63840050e-45
    >>> task = MarionSLR(signal=2.0, length=3, relevant_std=1.4)
    >>> [round(bayes_risk(task, knows=knows).risk, 4) for knows in ("keys", "scores")]
    [0.5788, 0.496]
    """
    _checks.choice(knows, "knows", KNOWLEDGE)
    if knows == "tokens" and dim is None:
        _checks.fail("dim", "given if whole tokens are known", "nothing")
    if dim is not None:
        dim = _checks.integer(dim, "dim", low=2)
    if math.isinf(task.signal) or task.length.longest == 1 or _negligible(task):
        return _result(task, Status.LIMIT, 0.0, 0.0, 0.0)
    if isinstance(task, ArrangementTask):
        return _arranged(task)
    rule = lookup(task, _RULES)
    (coarse, _), (squares, location) = (
        rule(task, resolution, knows, dim) for resolution in _RESOLUTIONS
    )
    if squares == 0.0:  # below the smallest double
        return _result(task, Status.LIMIT, 0.0, 0.0, 0.0)
    status, gap, error = judged(coarse, squares, location)
    return _result(task, status, squares, gap, error)


def judged(coarse: float, squares: float, location: float) -> tuple[Status, float, float]:
    """Return status, Nishimori gap and error from ``squares``, coarser, and the other form."""
    gap = abs(squares - location) / squares
    # an error of the location enters the squares twice
    error = max(abs(squares - coarse) + 2.0 * abs(squares - location), 1e-15 * squares)
    return Status.CONVERGED if max(gap, error / squares) < 1e-8 else Status.INACCURATE, gap, error


def _result(task: Task, status: Status, risk: float, gap: float, error: float) -> BayesRisk:
    return BayesRisk(
        status=status,
        risk=task.relevant_std**2 * risk + task.noise**2,
        nishimori_gap=gap,
        error=task.relevant_std**2 * error,
        setting=Setting(task),
    )


def _arranged(task: ArrangementTask) -> BayesRisk:
    """Return the risk of a task with several kinds of tokens; long sequences are sampled."""
    risk, gap, error, sampled = arranged_risk(task)
    if sampled:
        return _result(task, Status.SAMPLED, risk, gap, error)
    fine = error <= 1e-8 * max(risk, 1e-4)
    return _result(task, Status.CONVERGED if fine else Status.INACCURATE, risk, gap, error)


def _negligible(task: Task) -> bool:
    """Return whether a bound on the noiseless risk is below the smallest double.

    Between two Gaussians at a distance ``√ν``, ``E[1 − p_ε] ≤ ½ E Σ_{ℓ≠ε} (r_ℓ/r_ε)^½``, which is
    ``½ (L̄ − 1) e^{−ν/4}``.
    """
    shift = task.gaussian_shift
    return shift is not None and math.log(task.length.mean / 2.0) - shift**2 / 4.0 < -746.0


def _tilted(task: TiltedTask, resolution: float, *_given: Any) -> tuple[float, float]:
    x, relevant, others = tilted_nodes(task, task.steepness, resolution)
    width = task.posterior_scale or 0.0
    grid = LaplaceGrid(laplace_step(width, task.length.longest) / resolution)
    log_ratio, generating = task.log_ratio(x), task.length.generating
    moments = independent_moments(log_ratio, relevant, others, generating, grid=grid)
    # Σp² = p_ε² + Σ_{ℓ≠ε} p_ℓ², so 1 − EΣp² = 2E(1−p_ε) − E(1−p_ε)² − EΣ_{ℓ≠ε}p_ℓ²
    squares = 2.0 * moments.shortfall - moments.shortfall_square - moments.off_target
    return squares, moments.shortfall


def _selected(task: SelectionTask, resolution: float, *_given: Any) -> tuple[float, float]:
    scale, generating = task.posterior_scale, task.length.generating
    if scale is not None and scale >= STEEP:
        values, step = value_grid(task, resolution)
        rule = np.full(values.size, step)
        squares = missing_energy(values, step, scale, generating, resolution)
        return squares, softmax_first(values, rule, scale, scale, generating, resolution)[1]
    x, step = key_nodes(task, task.steepness, resolution)
    law = gauss_weights(x, step)
    log_w = task.log_weight(x)
    u, weights = selection_grid(task, x, law, resolution)
    (factors,) = token_factors(u, log_w, law)
    _, g1, g2 = generating(factors.log_zero)
    pairs = np.exp(factors.log_zero) * g2 + 2.0 * g1  # Σ P(L) L(L−1) z^(L−2)
    squares = float((factors.one**2 * pairs) @ weights)
    # E[1 − p_ε] takes one Laplace variable for the draw of ε and one for p
    if scale is not None and scale >= 2.0:
        values, shares = -u / scale, weights / scale
        return squares, aligned_moments(scale, scale, values, shares, generating, resolution)[1]
    fine, fine_weights = LaplaceGrid(STEP / resolution).nodes(np.array([u[0], u[-1]]))
    kernel = selection.SoftKernel.build(u, weights, log_w, law)
    decay = selection.decay_matrices(fine, log_w[:, None], np.ones(1))
    return squares, selection.selection_first_moments(kernel, decay, fine_weights, generating)[1]


# the noiseless risk in two forms, from the task, the resolution and what is known beside the keys
_RULES: Mapping[type, Callable[..., tuple[float, float]]] = {
    TiltedTask: _tilted,
    SelectionTask: _selected,
    MarionSLR: marion_risks,
}

r"""Trained attention on tokens with correlated coordinates: Gaussian, of covariance ``Σ``.

In the coordinates ``Σ^{−1/2}x`` the tokens are uncorrelated, and the ridges are the matrices
``r_a Σ⁻¹``. The teacher of the values is ``Σ^{1/2}v*``. On a selection task that of the keys is
``Σ^{1/2}k*``. On spiked-SLR the shift is ``√ν Σ^{−1/2}k*``: this is the teacher, of signal ``cν``
with ``c = tr Σ⁻¹/D``. With ``λ`` an eigenvalue of ``Σ``, ``w_a`` the squared components of the
teacher (``λ``, or ``1/(cλ)`` for the keys of spiked-SLR) and ``g_a = λ/(r_a + V̂_a λ)``,

    V_a = E[g_a],   m_a = m̂_a E[w_a g_a],   q_a = E[g_a² (m̂_a² w_a + q̂_a)],

the channel being that of uncorrelated tokens. Independent of how fixed points are found.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slrlab import _checks
from slrlab._result import TrainedRisk
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import SelectionTask, SpikedSLR, Task
from slrlab.theory.erm.equations import ChannelMeans
from slrlab.theory.erm.overlaps import ErmConjugates, ErmOverlaps
from slrlab.theory.erm.problem import Problem
from slrlab.theory.erm.result import ErmTheory
from slrlab.theory.erm.solve import Solver, checked

_LARGEST = 1e12  # V̂ in the units of the ridges


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvalues in equal shares; ``shifted`` if the relevant token is moved along ``k*``."""

    eigenvalues: tuple[float, ...]
    shifted: bool = True

    @property
    def array(self) -> FloatArray:
        return np.array(self.eigenvalues)

    @property
    def signal_factor(self) -> float:
        """``c = E[1/λ]``, by which correlations multiply the signal of a shift."""
        return float((1.0 / self.array).mean()) if self.shifted else 1.0

    def teacher(self, kind: str) -> FloatArray:
        """Return the squared components ``w`` of a teacher in the uncorrelated coordinates."""
        if kind == "k" and self.shifted:
            return np.asarray(1.0 / (self.signal_factor * self.array))
        return self.array

    def gains(self, ridge: float, V_hat: float) -> FloatArray:
        """Return ``λ/(r + V̂λ)``, the response of a component to its field."""
        return np.asarray(self.array / (ridge + V_hat * self.array))

    def overlaps(self, kind: str, ridge: float, hats: tuple[float, float, float]) -> FloatArray:
        """Return ``m, q, V`` of keys or values from ``m̂, q̂, V̂``."""
        m, q, V = hats
        gains, w = self.gains(ridge, V), self.teacher(kind)
        square = gains**2 * (m**2 * w + q)
        return np.array([m * (gains * w).mean(), square.mean(), gains.mean()])

    def conjugates(self, kind: str, ridge: float, m: float, q: float, V: float) -> FloatArray:
        """Return the ``m̂, q̂, V̂`` that give these overlaps."""
        from scipy.optimize import brentq

        V_hat = brentq(lambda x: float(self.gains(ridge, x).mean()) - V, 0.0, _LARGEST)
        gains, w = self.gains(ridge, V_hat), self.teacher(kind)
        m_hat = m / float((gains * w).mean())
        q_hat = (q - m_hat**2 * float((gains**2 * w).mean())) / float((gains**2).mean())
        return np.array([m_hat, q_hat, V_hat])

    def original(self, kind: str, ridge: float, m: float, q: float, V: float) -> FloatArray:
        """Return ``w·w*/D`` and ``|w|²/D`` of the trained vector in the original coordinates."""
        m_hat, q_hat, V_hat = self.conjugates(kind, ridge, m, q, V)
        gains, w = self.gains(ridge, V_hat), self.teacher(kind)
        norm = float((gains**2 * (m_hat**2 * w + q_hat) / self.array).mean())
        if kind == "k" and self.shifted:
            return np.array([math.sqrt(self.signal_factor) * m, norm])
        return np.array([m_hat * float(gains.mean()), norm])


@dataclass(frozen=True)
class _CorrelatedProblem(Problem):
    """The equations with ridge matrices ``r_a Σ⁻¹``."""

    spectrum: _Spectrum = _Spectrum((1.0,))

    def _image(self, hats: ErmConjugates, bias: float) -> FloatArray:
        given = (self.ridge_k or 0.0, self.ridge_v or 0.0)
        if not (hats.V_k > 0.0 and hats.V_v > 0.0):
            return np.full(7, math.nan)
        m_k, q_k, V_k = self.spectrum.overlaps("k", given[0], (hats.m_k, hats.q_k, hats.V_k))
        m_v, q_v, V_v = self.spectrum.overlaps("v", given[1], (hats.m_v, hats.q_v, hats.V_v))
        overlaps = ErmOverlaps(m_k=m_k, q_k=q_k, V_k=V_k, m_v=m_v, q_v=q_v, V_v=V_v, bias=bias)
        return overlaps.to_vector()

    def objective(self, means: ChannelMeans, overlaps: ErmOverlaps) -> float:
        """Return the training objective per dimension."""
        (hats,) = means.pooled.conjugates(self.alpha, overlaps, self.stiffness)
        loss = 0.5 * self.alpha * means.mean("LOSS")
        for kind, ridge in (("k", self.ridge_k or 0.0), ("v", self.ridge_v or 0.0)):
            m, q, V = (getattr(hats, f"{name}_{kind}") for name in ("m", "q", "V"))
            gains = self.spectrum.gains(ridge, V)
            square = gains**2 * (m**2 * self.spectrum.teacher(kind) + q)
            loss += 0.5 * ridge * float((square / self.spectrum.array).mean())
        return loss


@dataclass(frozen=True)
class CorrelatedTheory(TrainedRisk):
    """Trained attention on correlated tokens, as ``N, D → ∞``.

    Attributes
    ----------
    test_risk, test_risk_error, train_mse
        Risk on new data with its standard error, and mean squared error on the training set.
    m_k, m_v, q_k, q_v
        ``k·k*/D``, ``v·v*/D``, ``|k|²/D`` and ``|v|²/D`` of the trained vectors.
    errors
        Standard errors of these numbers.
    signal_factor
        ``c = tr Σ⁻¹/D`` on spiked-SLR, whose best keys see the signal ``cν``; else 1.
    replicon
        Upper bound of the stability eigenvalue of replica symmetry; stable below 1.
    uncorrelated
        The same in coordinates in which the tokens are uncorrelated.
    """

    train_mse: float
    m_k: float
    m_v: float
    q_k: float
    q_v: float
    errors: dict[str, float]
    signal_factor: float
    replicon: float
    uncorrelated: ErmTheory


def correlated_theory(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    spectrum: Sequence[float] | FloatArray,
    tolerance: float = 3e-4,
    seed: int = 0,
    report: Report | None = None,
) -> CorrelatedTheory:
    r"""Return the asymptotics of attention trained on Gaussian tokens of covariance ``Σ``.

    Parameters
    ----------
    task, activation
        Spiked-SLR or a selection task, and the activation that learns it.
    alpha, ridge_k, ridge_v
        As of `slrlab.erm_theory`.
    spectrum
        Eigenvalues of ``Σ`` in equal shares, positive and of mean 1, such as
        ``TokenLaw.of("gaussian+ar1(0.5)").spectrum()``. The teachers do not depend on ``Σ``.
    tolerance, seed, report
        As of `slrlab.erm_theory`.

    Returns
    -------
    CorrelatedTheory
        Risks and overlaps of the trained vectors, with standard errors.

    Raises
    ------
    TypeError
        If the task is another one: it has no such theory.
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR, TokenLaw, correlated_theory
    >>> ridges = {"alpha": 4.0, "ridge_k": 0.5, "ridge_v": 0.8, "tolerance": 5e-3}
    >>> law = TokenLaw.of("gaussian+ar1(0.5)")
    >>> theory = correlated_theory(SpikedSLR(2.0, 3), "softmax", spectrum=law.spectrum(), **ridges)
    >>> print(f"signal times {theory.signal_factor:.3f}, test risk {theory.test_risk:.2f}")
    signal times 1.667, test risk 0.50
    """
    if not isinstance(task, SpikedSLR | SelectionTask):
        accepted = "SpikedSLR or a SelectionTask for correlated tokens"
        _checks.fail("task", accepted, type(task).__name__, TypeError)
    chosen = checked(task, activation, alpha, tolerance)
    law = _Spectrum(_eigenvalues(spectrum), shifted=isinstance(task, SpikedSLR))
    white = replace(task, signal=law.signal_factor * task.signal)
    ridges = (_checks.non_negative(ridge_k, "ridge_k"), _checks.non_negative(ridge_v, "ridge_v"))
    problem = _CorrelatedProblem(white, chosen, float(alpha), *ridges, spectrum=law)
    solver = Solver(white, chosen, seed, report)
    theory = solver.best(problem, tolerance, solver.starts(), allowance=3.0)
    if not theory.status.usable:
        unknown = dict.fromkeys(("m_k", "m_v", "q_k", "q_v"), math.nan)
        return _result(theory, law, unknown, math.nan)
    order = {kind: [getattr(theory, f"{name}_{kind}") for name in "mqV"] for kind in "kv"}
    vectors: dict[str, float] = {}
    growth = 1.0  # of the stability map, whose V² is the mean square of the gains
    for kind, ridge in zip("kv", ridges, strict=True):
        along, norm = law.original(kind, ridge, *order[kind])
        gains = law.gains(ridge, law.conjugates(kind, ridge, *order[kind])[2])
        growth = max(growth, float((gains**2).mean() / gains.mean() ** 2))
        vectors |= {f"m_{kind}": float(along), f"q_{kind}": float(norm)}
    return _result(theory, law, vectors, growth * theory.replicon)


def _result(
    theory: ErmTheory, law: _Spectrum, vectors: dict[str, float], replicon: float
) -> CorrelatedTheory:
    return CorrelatedTheory(
        status=theory.status,
        test_risk=theory.test_risk,
        test_risk_error=theory.test_risk_error,
        train_mse=theory.train_mse,
        # the errors of the vectors are as large as in the uncorrelated coordinates, relatively
        errors={
            name: error * abs(vectors.get(name, 1.0) / (getattr(theory, name) or 1.0))
            if name in vectors
            else error
            for name, error in theory.errors.items()
        },
        signal_factor=law.signal_factor,
        replicon=replicon,
        uncorrelated=theory,
        **vectors,
    )


def _eigenvalues(given: Sequence[float] | FloatArray) -> tuple[float, ...]:
    """Return eigenvalues, checked."""
    values = np.asarray(given, dtype=float)
    fine = values.ndim == 1 and values.size > 0 and np.isfinite(values).all() and (values > 0).all()
    if not (fine and abs(float(values.mean()) - 1.0) < 1e-3):
        accepted = "positive numbers of mean 1"
        shown = f"mean {values.mean():.4g}" if fine else "another sequence"
        _checks.fail("spectrum", accepted, shown)
    return tuple((values / values.mean()).tolist())

r"""The two numbers that fix a population risk: how much weight lands on the relevant token.

On the manifold M the risk of a predictor depends on its keys only through
``A = E[σ_ε]`` and ``B = E Σ σ_ℓ²``. This module computes them for every pair of task family and
activation family, as `AttentionMoments`. It knows nothing about values, noise or optimisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from slrlab.model.activations import Activation, Elementwise, Normalised, Projection
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.selection import (
    HardKernel,
    SelectionKernel,
    SoftKernel,
    aligned_exponential_moments,
    decay_matrices,
    selection_first_moments,
)
from slrlab.numerics.simplex import (
    STEP,
    LaplaceGrid,
    exchangeable_square,
    independent_moments,
    token_factors,
)

_EDGE = 9.3  # standard deviations kept of a Gaussian: mass 1e-20 beyond
_NODE_STEP = 0.35  # in units of the width of the sharpest factor
_SPREAD = 0.3  # step in units of the Gaussian width of an entire factor


@dataclass(frozen=True)
class AttentionMoments:
    """Moments of the attention weights.

    Attributes
    ----------
    target
        ``A = E[σ_ε]``.
    shortfall
        ``1 − A`` without cancellation.
    spread
        ``B − A² = Var σ_ε + E Σ_{ℓ≠ε} σ_ℓ²`` without cancellation.
    defect
        How far ``A`` and ``1 − A``, computed apart, are from adding up to 1.
    sampled_error
        Standard error of ``A²/B`` where the moments were sampled, else 0.
    """

    target: float
    shortfall: float
    spread: float
    defect: float = 0.0
    sampled_error: float = 0.0

    @property
    def energy(self) -> float:
        """``B = E Σ σ_ℓ²``."""
        return self.target**2 + self.spread

    @property
    def best_value_scale(self) -> float:
        """The ``m_v = A/B`` that minimises the risk."""
        return self.target / self.energy if self.energy > 0.0 else 0.0

    @property
    def best_risk(self) -> float:
        """``1 − A²/B``, the noiseless risk at the best ``v``."""
        return self.spread / self.energy if self.energy > 0.0 else 1.0

    def risk(self, m_v: float, R_v: float = 0.0) -> float:
        """Return ``1 − 2 m_v A + q_v B`` as a sum of squares."""
        missed = (1.0 - m_v) + m_v * self.shortfall
        return missed**2 + m_v**2 * self.spread + R_v * self.energy


def attention_moments(
    task: Task, activation: Activation, m_k: float, R_k: float = 0.0, *, resolution: float = 1.0
) -> AttentionMoments:
    """Return the moments at given key order parameters.

    ``resolution`` divides every step; 1 gives about 12 digits for smooth activations.
    """
    if isinstance(activation, Projection):
        from slrlab.theory.projection import projection_moments

        return projection_moments(task, activation, m_k, R_k, resolution)
    if isinstance(task, TiltedTask):
        if math.isinf(task.signal):
            return _certain_place(task, activation, m_k, R_k, resolution)
        if isinstance(activation, Elementwise):
            return _elementwise_tilted(task, activation, m_k, R_k, resolution)
        return _normalised_tilted(task, _normalised(activation), m_k, R_k, resolution)
    if isinstance(task, SelectionTask):
        if isinstance(activation, Elementwise):
            return _elementwise_selected(task, activation, m_k, R_k, resolution)
        return _normalised_selected(task, _normalised(activation), m_k, R_k, resolution)
    raise TypeError(f"task must be a TiltedTask or a SelectionTask, got {type(task).__name__}")


def _normalised(activation: Activation) -> Normalised:
    if not isinstance(activation, Normalised):
        raise TypeError(
            "activation must be Elementwise, Normalised or Projection, "
            f"got {type(activation).__name__}"
        )
    return activation


# --- nodes -----------------------------------------------------------------------------------


def _edge(task: Task) -> float:
    return math.sqrt(_EDGE**2 + 2.0 * math.log(task.length.longest))


def gauss_weights(x: FloatArray, step: float) -> FloatArray:
    """Return trapezoid weights of the standard normal density."""
    return np.exp(-(x**2) / 2.0) * (step / math.sqrt(2.0 * math.pi))


def key_nodes(task: Task, sharpness: float, resolution: float) -> tuple[FloatArray, float]:
    """Return trapezoid nodes for the key score ``χ*`` of any token, and their step."""
    low, high = -_edge(task), _edge(task)
    if isinstance(task, TiltedTask):
        low, high = min(low, task.relevant_interval[0]), max(high, task.relevant_interval[1])
    step = _NODE_STEP / (max(sharpness, 0.5) * resolution)
    return np.arange(low, high + step, step), step


def tilted_laws(task: TiltedTask, x: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Return the weights of relevant and other tokens on the nodes."""
    log_normal = -(x**2) / 2.0 + math.log(step / math.sqrt(2.0 * math.pi))
    return np.exp(log_normal + task.log_ratio(x)), np.exp(log_normal)


def _jitter(R_k: float, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Return the part of the score orthogonal to the teacher and its weights."""
    if R_k == 0.0:
        return np.zeros(1), np.ones(1)
    step = _NODE_STEP / (max(math.sqrt(R_k), 0.5) * resolution)
    a = np.arange(-_EDGE, _EDGE + step, step)
    return math.sqrt(R_k) * a, gauss_weights(a, step)


def laplace_step(width: float, longest: int) -> float:
    """Return the step in ``log t`` where factors are Gaussian averages of this width.

    The largest of ``longest`` normals has a spread of about ``1/√(2 log longest)``.
    """
    return max(STEP, _SPREAD * width / math.sqrt(1.0 + math.log(longest)))


def _grid(activation: Normalised, task: Task, width: float, resolution: float) -> LaplaceGrid:
    wide = laplace_step(width, task.length.longest)
    if activation.sink > 0.0:  # e^{−tb} is one step of width 1 in log t, smoothed by nothing
        return LaplaceGrid(STEP / resolution)
    if activation.exponential == "everywhere":
        return LaplaceGrid(wide / resolution)
    stretch = wide / STEP if activation.exponential == "left" else 1.0
    return LaplaceGrid(STEP / resolution, stretch)


# --- independent tokens ----------------------------------------------------------------------


def _elementwise_tilted(
    task: TiltedTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    x, step = key_nodes(task, abs(m_k), resolution)
    relevant, others = tilted_laws(task, x, step)
    noise, jitter = _jitter(R_k, resolution)
    sigma = activation.weights(m_k * x[:, None] + noise)
    target = float(relevant @ sigma @ jitter)
    variance = float(relevant @ (sigma - target) ** 2 @ jitter)
    off = (task.length.mean - 1.0) * float(others @ sigma**2 @ jitter)
    return AttentionMoments(target, 1.0 - target, variance + off)


def _certain_place(
    task: TiltedTask, activation: Activation, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Infinite signal: the relevant token has an infinite score of the sign of ``m_k``."""
    if isinstance(activation, Elementwise):
        with np.errstate(over="ignore"):
            top = float(activation.weights(np.array([math.copysign(1e150, m_k) if m_k else 0.0]))[0])
        if abs(top) > 1e100:
            return AttentionMoments(1.0, 0.0, 0.0)
        noise, jitter = _jitter(m_k**2 + R_k, resolution)
        off = (task.length.mean - 1.0) * float(activation.weights(noise) ** 2 @ jitter)
        return AttentionMoments(top, 1.0 - top, off)
    phi = _normalised(activation)
    top = float(phi.log_phi(np.array([math.copysign(1e150, m_k) if m_k else 0.0]))[0])
    if top > 100.0:
        return AttentionMoments(1.0, 0.0, 0.0)
    noise, jitter = _jitter(m_k**2 + R_k, resolution)
    nodes = np.append(phi.log_phi(noise), top)
    relevant = np.append(np.zeros_like(jitter), 1.0)
    grid = _grid(phi, task, math.hypot(m_k, math.sqrt(R_k)), resolution)
    return _from_simplex(task, phi, nodes, relevant, np.append(jitter, 0.0), grid)


def _from_simplex(
    task: Task,
    activation: Normalised,
    log_phi: FloatArray,
    relevant: FloatArray,
    others: FloatArray,
    grid: LaplaceGrid,
) -> AttentionMoments:
    found = independent_moments(
        log_phi, relevant, others, task.length.generating, sink=activation.sink, grid=grid
    )
    variance = max(0.0, found.shortfall_square - found.shortfall**2)
    defect = abs(found.target + found.shortfall - 1.0)
    return AttentionMoments(found.target, found.shortfall, variance + found.off_target, defect)


def _normalised_tilted(
    task: TiltedTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    x, step = key_nodes(task, abs(m_k), resolution)
    relevant, others = tilted_laws(task, x, step)
    noise, jitter = _jitter(R_k, resolution)
    log_phi = activation.log_phi(m_k * x[:, None] + noise).ravel()
    grid = _grid(activation, task, math.hypot(m_k, math.sqrt(R_k)), resolution)
    laws = (np.outer(law, jitter).ravel() for law in (relevant, others))
    return _from_simplex(task, activation, log_phi, *laws, grid)


# --- selected tokens -------------------------------------------------------------------------


def _bucket(sharpness: float) -> float:
    """Round up to a power of two, so that nearby calls share their grids."""
    return 2.0 ** math.ceil(math.log2(max(sharpness, 0.5)))


@lru_cache(maxsize=8)
def _selected_density(
    task: SelectionTask, sharpness: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes for ``χ*`` and the weights of the selected token's score on them."""
    if task.hard:
        peak = math.sqrt(1.0 + math.log(task.length.longest))
        x, step = key_nodes(task, max(sharpness, 2.0 * peak), resolution)
        log_below = np.asarray(special.log_ndtr(x))
        g0, g1, _ = task.length.generating(log_below)
        return x, gauss_weights(x, step) * (np.exp(log_below) * g1 + g0)
    x, step = key_nodes(task, max(sharpness, task.steepness), resolution)
    law = gauss_weights(x, step)
    log_w = task.log_weight(x)
    # the density is met through averages over 1/sharpness, not pointwise
    u, u_weights = selection_grid(task, x, law, resolution, sharpness=sharpness)
    density = np.zeros_like(x)
    (factors,) = token_factors(u, log_w, law)
    g0, g1, _ = task.length.generating(factors.log_zero)
    outer = u_weights * (np.exp(factors.log_zero) * g1 + g0)
    rows = max(1, (1 << 21) // x.size)
    for start in range(0, u.size, rows):
        race = np.exp(np.minimum(u[start : start + rows, None] + log_w, 700.0))
        density += outer[start : start + rows] @ (race * np.exp(-race))
    return x, law * density


def selected_score_mean(task: SelectionTask) -> float:
    """Return ``μ̄ = E[χ*_ε]``, averaged over the length (infinite signal: mean of the maximum)."""
    x, selected = _selected_density(task, _bucket(1.0), 1.35)
    return float(selected @ x)


def selection_grid(
    task: SelectionTask,
    x: FloatArray,
    law: FloatArray,
    resolution: float,
    *,
    sharpness: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights in ``log s`` for the selection variable of a finite signal.

    The grid resolves functions of the score that vary over ``1/sharpness``.
    """
    log_w = task.log_weight(x)
    _, ends = exchangeable_square(log_w, law, task.length.generating, grid=LaplaceGrid(8.0))
    width = (task.posterior_scale or 0.0) / max(1.0, 2.0 * sharpness)
    step = laplace_step(width, task.length.longest)
    return LaplaceGrid(step / resolution).nodes(ends)


def _elementwise_selected(
    task: SelectionTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    x, selected = _selected_density(task, _bucket(abs(m_k)), resolution)
    noise, jitter = _jitter(R_k, resolution)
    sigma = activation.weights(m_k * x[:, None] + noise)
    target = float(selected @ sigma @ jitter)
    energy = task.length.mean * float(gauss_weights(x, x[1] - x[0]) @ sigma**2 @ jitter)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _normalised_selected(
    task: SelectionTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    width = math.hypot(m_k, math.sqrt(R_k))
    noise, jitter = _jitter(R_k, resolution)
    x, step = key_nodes(task, abs(m_k), resolution)
    log_phi = activation.log_phi(m_k * x[:, None] + noise).ravel()
    if not np.isfinite(log_phi).any():
        return AttentionMoments(0.0, 1.0, 0.0)
    tokens = np.outer(gauss_weights(x, step), jitter).ravel()
    grid = _grid(activation, task, width, resolution)
    generating = task.length.generating
    energy, ends = exchangeable_square(
        log_phi, tokens, generating, sink=activation.sink, grid=grid
    )
    target, shortfall = _selected_first(task, activation, m_k, R_k, ends, resolution)
    defect = abs(target + shortfall - 1.0)
    if shortfall < 0.5:
        # B − A² = (B − 1) + 2(1−A) − (1−A)²; B itself is accurate to rounding only
        spread = (energy - 1.0) + shortfall * (2.0 - shortfall)
        return AttentionMoments(1.0 - shortfall, shortfall, max(0.0, spread), defect)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), defect)


@lru_cache(maxsize=2)
def _kernel(
    task: SelectionTask, node_sharpness: float, grid_sharpness: float, resolution: float
) -> tuple[FloatArray, SelectionKernel]:
    """Return token nodes and the selection kernel on them."""
    if task.hard:
        sharp = max(node_sharpness, 2.0 * math.sqrt(1.0 + math.log(task.length.longest)))
        hard = HardKernel.build(_edge(task), _NODE_STEP / (sharp * resolution))
        return hard.nodes, hard
    x, step = key_nodes(task, max(node_sharpness, task.steepness), resolution)
    law = gauss_weights(x, step)
    u, weights = selection_grid(task, x, law, resolution, sharpness=grid_sharpness)
    return x, SoftKernel.build(u, weights, task.log_weight(x), law)


def _selected_first(
    task: SelectionTask,
    activation: Normalised,
    m_k: float,
    R_k: float,
    ends: FloatArray,
    resolution: float,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``E[1−σ_ε]``; ``ends`` bound ``log t``."""
    scale = task.posterior_scale
    pure = activation.exponential == "everywhere" and activation.sink == 0.0 and R_k == 0.0
    if pure and scale is not None and 2.0 <= scale < math.inf and 0.0 < m_k <= 4.0 * scale:
        x, step = key_nodes(task, scale, resolution)
        u, u_weights = selection_grid(task, x, gauss_weights(x, step), resolution)
        return aligned_exponential_moments(
            scale, m_k, task.length.generating, u, u_weights, resolution=resolution
        )
    # the integrand has a ridge where both Laplace variables point at the same score: it is
    # enough that one of the two grids resolves it, so the flatter factor gets the fine grid
    width = math.hypot(m_k, math.sqrt(R_k))
    fine_t = not task.hard and width <= (scale or 0.0)
    grid = LaplaceGrid(STEP / resolution) if fine_t else _grid(activation, task, width, resolution)
    smooth = activation.exponential == "everywhere" and activation.sink == 0.0
    coarse = 0.0 if smooth else _bucket(width)
    x, kernel = _kernel(task, _bucket(abs(m_k)), coarse if fine_t else math.inf, resolution)
    noise, jitter = _jitter(R_k, resolution)
    u, weights = grid.nodes(ends)
    log_phi = activation.log_phi(m_k * x[:, None] + noise)
    decay = decay_matrices(u, log_phi, jitter)
    t_sink = activation.sink * np.exp(u) if activation.sink > 0.0 else 0.0
    return selection_first_moments(kernel, decay, weights, task.length.generating, t_sink)

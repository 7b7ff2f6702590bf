r"""Where replica symmetry can be trusted: the replicon of trained attention.

A perturbation ``S`` of the covariance between two replicas evolves under
``S ↦ V αE[Σ_{ℓℓ'} G_{ℓℓ'} S G_{ℓℓ'}ᵀ] V``. On the manifold M it splits into a 2×2 matrix for the
diagonal of ``S`` and one number for its off-diagonal entry; the theory is stable if all
eigenvalues are below 1. Where the prox has two minima of equal depth ``G`` holds a delta that no
sample sees: `JumpWarning` measures its traces.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab.theory.erm.equations import ChannelMeans
from slrlab.theory.erm.overlaps import ErmOverlaps


def replicon(means: ChannelMeans, alpha: float, overlaps: ErmOverlaps) -> float:
    """Return the largest eigenvalue; the means must have been taken with ``squares=True``."""
    V_k, V_v = overlaps.V_k, overlaps.V_v
    kk, kv, vv = (means.mean(name) for name in ("GG_KK", "GG_KV", "GG_VV"))
    diagonal = alpha * np.array([[V_k**2 * kk, V_k**2 * kv], [V_v**2 * kv, V_v**2 * vv]])
    crossed = alpha * V_k * V_v * means.mean("GG_CROSS")
    return float(max(np.abs(np.linalg.eigvals(diagonal)).max(), abs(crossed)))


MOST_GAP = 0.03  # share of the stiffness that jumps may hold


@dataclass(frozen=True)
class JumpWarning:
    """Two signs that the prox jumps.

    Attributes
    ----------
    bistable_fraction
        Share of samples whose prox has more than one local minimum.
    trace_gap
        Difference between ``V̂`` from the trace of ``G``, blind to jumps, and from Stein's
        identity, which counts them, in units of ``1/V = r + V̂``: the share of the stiffness that
        the jumps hold. The larger of keys and values; 0 where no prox has a second minimum.
    """

    bistable_fraction: float
    trace_gap: float


def jump_warning(means: ChannelMeans, alpha: float, overlaps: ErmOverlaps) -> JumpWarning:
    """Return the signs of jumps at a fixed point; the prox must have been searched globally."""
    (stein,) = means.pooled.conjugates(alpha, overlaps, "stein")
    (trace,) = means.pooled.conjugates(alpha, overlaps, "trace")
    gap_k, gap_v = overlaps.V_k * (stein.V_k - trace.V_k), overlaps.V_v * (stein.V_v - trace.V_v)
    return JumpWarning(means.mean("BISTABLE"), max(abs(gap_k), abs(gap_v)))

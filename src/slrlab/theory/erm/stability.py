r"""Where replica symmetry holds: the replicon of trained attention, and the jumps of the prox.

A perturbation ``S`` of the covariance between two replicas evolves under
``S ↦ V αE[Σ_{ℓℓ'} G_{ℓℓ'} S G_{ℓℓ'}ᵀ] V``. On the manifold M it splits into a 2×2 matrix for the
diagonal of ``S`` and one number for its off-diagonal entry; the theory is stable if all
eigenvalues are below 1. Where the prox has two minima of equal depth, ``G`` has a delta that no
sample contains: the trace gap measures it.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import numpy as np

from slrlab.theory.erm.equations import ChannelMeans
from slrlab.theory.erm.overlaps import ErmOverlaps

MOST_GAP = 0.03  # largest trace gap of a stable solution


def replicon(means: ChannelMeans, alpha: float, overlaps: ErmOverlaps) -> float:
    """Return the largest eigenvalue; the means must have been taken with ``squares=True``."""
    V_k, V_v = overlaps.V_k, overlaps.V_v
    kk, kv, vv = (means.mean(name) for name in ("GG_KK", "GG_KV", "GG_VV"))
    diagonal = alpha * np.array([[V_k**2 * kk, V_k**2 * kv], [V_v**2 * kv, V_v**2 * vv]])
    crossed = alpha * V_k * V_v * means.mean("GG_CROSS")
    return float(max(np.abs(np.linalg.eigvals(diagonal)).max(), abs(crossed)))


def trace_gap(means: ChannelMeans, alpha: float, overlaps: ErmOverlaps) -> float:
    """Return the fraction of ``1/V = r + V̂`` that comes from jumps of the prox.

    This is ``V`` times the difference of the two forms of ``V̂``, the larger of keys and values;
    0 where no prox has a second minimum. Each prox must have been searched globally.
    """
    (stein,) = means.pooled.conjugates(alpha, overlaps, "stein")
    (trace,) = means.pooled.conjugates(alpha, overlaps, "trace")
    gap_k, gap_v = overlaps.V_k * (stein.V_k - trace.V_k), overlaps.V_v * (stein.V_v - trace.V_v)
    return max(abs(gap_k), abs(gap_v))

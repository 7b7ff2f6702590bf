"""Training by variable projection: L-BFGS on the keys, at the best values for each."""

from __future__ import annotations

import math
import time

import numpy as np
from numba import njit, prange

from _training import GOAL, LENGTH, SOFTMAX, Run, lbfgs
from slrlab import Dataset, Weights
from slrlab._types import FloatArray
from slrlab.simulation.training.objective import Objective


@njit(cache=True, parallel=True, fastmath=True)
def blend(tokens, k, length, out):
    """Fill row n with ``Σ_ℓ softmax(χ)_ℓ x_ℓ``, reading the tokens once."""
    dim = k.size
    for n in prange(out.shape[0]):
        sigma = np.empty(length)
        for i in range(length):
            chi = np.float32(0.0)
            x = tokens[n * length + i]
            for d in range(dim):
                chi += x[d] * k[d]
            sigma[i] = chi
        sigma = np.exp(sigma - sigma.max())
        sigma /= sigma.sum()
        out[n] = 0.0
        for i in range(length):
            x, weight = tokens[n * length + i], np.float32(sigma[i])
            for d in range(dim):
                out[n, d] += weight * x[d]


@njit(cache=True, parallel=True, fastmath=True)
def normal(w, p, parts):
    """Fill the rows of ``parts`` with terms whose sum is ``WᵀWp``, reading W once."""
    count, dim = w.shape
    chunks = parts.shape[0]
    for c in prange(chunks):
        parts[c] = 0.0
        for n in range(c * count // chunks, (c + 1) * count // chunks):
            dot = np.float32(0.0)
            for d in range(dim):
                dot += w[n, d] * p[d]
            for d in range(dim):
                parts[c, d] += dot * w[n, d]


class Projected:
    """The objective with the best ``v`` for each ``k``: a ridge regression solved by CG.

    Each solve starts from the last ``v`` and stops when its residual is a fraction of the last
    gradient. The gradient in ``k`` is that at fixed ``v`` (envelope theorem). One more pass
    computes it together with the gradient in ``v``.
    """

    SHARE = 0.3  # fewest passes among 0.01, 0.1, 0.3 and 1; training stalls at 1

    def __init__(self, objective: Objective, v: FloatArray) -> None:
        self.objective, self.v = objective, v
        data = objective.data
        self.root = math.sqrt(data.dim)
        self.unit = float(np.linalg.norm(data.labels))
        self.w = np.empty((data.samples, data.dim), np.float32)
        self.parts = np.empty((16, data.dim), np.float32)
        self.norm, self.theta, self.inner = math.inf, np.empty(0), 0

    def times(self, p: FloatArray) -> FloatArray:
        self.inner += 1
        small = (p / self.root).astype(np.float32)
        normal(self.w, small, self.parts)
        return self.parts.sum(axis=0) / self.root + self.objective.ridge_v * p

    def solve(self, k: FloatArray) -> None:
        data = self.objective.data
        blend(data.tokens, (k / self.root).astype(np.float32), LENGTH, self.w)
        right = data.labels.astype(np.float32) @ self.w / self.root
        residual = right - self.times(self.v)
        p, size = residual.copy(), float(residual @ residual)
        enough = max(0.3 * GOAL, self.SHARE * min(self.norm, 1.0)) * self.unit
        while math.sqrt(size) > enough:
            pushed = self.times(p)
            step = size / float(p @ pushed)
            self.v = self.v + step * p
            residual -= step * pushed
            size, last = float(residual @ residual), size
            p = residual + size / last * p

    def __call__(self, k: FloatArray) -> tuple[float, FloatArray]:
        self.solve(k)
        self.theta = np.concatenate([k, self.v])
        value, gradient = self.objective(self.theta)
        self.norm = float(np.linalg.norm(gradient)) / self.unit
        return value, gradient[: k.size]

    @property
    def outer(self) -> int:
        """Reads of all tokens: those of the objective, and the same number to form W."""
        return 2 * self.objective.passes

    @property
    def passes(self) -> float:
        """All reads in units of the tokens; W has 1/L of their size, Wᵀy is one more read of W."""
        return self.outer + (self.objective.passes + self.inner) / LENGTH


def projected(data: Dataset, ridges: tuple[float, float], start: Weights) -> Run:
    began = time.perf_counter()
    function = Projected(Objective(data, SOFTMAX, *ridges), start.v)
    steps = lbfgs(function, start.k, lambda: function.norm <= GOAL)
    seconds = time.perf_counter() - began
    return Run(function.theta, steps, function.passes, function.outer, seconds)

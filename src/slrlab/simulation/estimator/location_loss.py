r"""Losses of labelled locations: keys ``k`` whose softmax should be 1 at the location.

With scores ``χ = Xk/√D``, ``σ = softmax(χ)`` and ``b`` the unit vector of the location, a sequence
has the loss ``−log σ_ε`` (cross entropy) or ``½‖σ − b‖²`` (least squares; Gao, Song and Xie 2023);
a ridge adds ``½ r|k|²``. Value, gradient and Hessian are exact. Independent of how the loss is
minimised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slrlab._errors import TooLargeError
from slrlab._machine import allowed_memory, in_gib
from slrlab._types import FloatArray
from slrlab.simulation.data.dataset import Dataset

LOSSES = ("cross entropy", "least squares")
_BLOCK = 1 << 22  # numbers of weighted tokens in memory at a time


@dataclass(frozen=True)
class LocationLoss:
    """The loss of keys on sequences with known locations.

    ``data`` holds tokens in double precision, and in ``locations`` the labels; ``weights`` multiply
    the losses of the sequences.
    """

    data: Dataset
    kind: str
    ridge: float
    weights: FloatArray

    @cached_property
    def _targets(self) -> FloatArray:
        """1 at the location of each sequence, else 0."""
        assert self.data.locations is not None
        target = np.zeros(len(self.data.tokens))
        target[self.data.offsets[:-1] + self.data.locations] = 1.0
        return target

    def scores(self, k: FloatArray) -> FloatArray:
        """Return the score ``χ`` of each token."""
        return np.asarray(self.data.tokens @ (k / math.sqrt(self.data.dim)))

    def score_range(self, k: FloatArray) -> float:
        """Return the largest difference of two scores of a sequence: all that softmax sees."""
        chi, starts = self.scores(k), self.data.offsets[:-1]
        return float((np.maximum.reduceat(chi, starts) - np.minimum.reduceat(chi, starts)).max())

    def _sums(self, values: FloatArray) -> FloatArray:
        """Return the sum over each sequence, for each of its tokens."""
        sums = np.add.reduceat(values, self.data.offsets[:-1])
        return np.repeat(sums, self.data.lengths)

    def _softmax(self, chi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``σ`` of each token, and ``log Σ e^χ`` of each sequence."""
        top = np.maximum.reduceat(chi, self.data.offsets[:-1])
        phi = np.exp(chi - np.repeat(top, self.data.lengths))
        total = np.add.reduceat(phi, self.data.offsets[:-1])
        return phi / np.repeat(total, self.data.lengths), top + np.log(total)

    def value(self, k: FloatArray) -> float:
        """Return the loss, ridge included."""
        chi = self.scores(k)
        sigma, log_sum = self._softmax(chi)
        if self.kind == "cross entropy":
            own = chi[self._targets > 0.0]
            loss = float(self.weights @ (log_sum - own))
        else:
            squares = np.add.reduceat((sigma - self._targets) ** 2, self.data.offsets[:-1])
            loss = 0.5 * float(self.weights @ squares)
        return loss + 0.5 * self.ridge * float(k @ k)

    def _slope(self, sigma: FloatArray) -> FloatArray:
        """Return the derivative of the loss of each sequence in its scores."""
        rest = sigma - self._targets
        if self.kind == "cross entropy":
            return rest
        return sigma * (rest - self._sums(sigma * rest))

    def derivatives(self, k: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and Hessian.

        In the scores of a sequence the Hessian is ``diag(d) − wσᵀ − σwᵀ + sσσᵀ``: for cross entropy
        ``d = σ``, ``w = 0``, ``s = −1``; for least squares, with ``r = σ − b`` and ``u = r + σ``,
        ``d = σ∘(u − σ·r)``, ``w = σ∘u``, ``s = σ·r + σ·u``.
        """
        sigma, _ = self._softmax(self.scores(k))
        each = np.repeat(self.weights, self.data.lengths)
        slope, diagonal, cross, square = self._slope(sigma), sigma, None, np.array([-1.0])
        if self.kind == "least squares":
            rest = sigma - self._targets
            both, inner = rest + sigma, self._sums(sigma * rest)
            diagonal, cross = sigma * (both - inner), sigma * both
            square = (inner + self._sums(cross))[self.data.offsets[:-1]]
        dim = self.data.dim
        gradient, hessian = np.zeros(dim), np.zeros((dim, dim))
        for rows, first, last in self._sequences():
            tokens = self.data.tokens[rows]
            gradient += (slope * each)[rows] @ tokens
            hessian += tokens.T @ ((diagonal * each)[rows, None] * tokens)
            starts = self.data.offsets[first:last] - self.data.offsets[first]
            weights = self.weights[first:last, None]
            mean = np.add.reduceat(sigma[rows, None] * tokens, starts)
            own = square if square.size == 1 else square[first:last, None]
            hessian += mean.T @ (own * weights * mean)
            if cross is not None:
                mixed = (weights * np.add.reduceat(cross[rows, None] * tokens, starts)).T @ mean
                hessian -= mixed + mixed.T
        gradient = gradient / math.sqrt(dim) + self.ridge * k
        hessian = hessian / dim + self.ridge * np.eye(dim)
        return gradient, hessian

    def _sequences(self) -> list[tuple[slice, int, int]]:
        """Return blocks of whole sequences: rows of tokens, first sequence and the one after."""
        offsets, count = self.data.offsets, self.data.samples
        each = max(1, int(_BLOCK * count / max(1, self.data.tokens.size)))
        starts = range(0, count, each)
        ends = [min(count, at + each) for at in starts]
        return [
            (slice(int(offsets[a]), int(offsets[b])), a, b)
            for a, b in zip(starts, ends, strict=True)
        ]

    def margins(self, k: FloatArray) -> FloatArray:
        """Return, for each sequence, the score of the location minus the largest other score.

        Sequences of one token have none and are left out.
        """
        chi, target = self.scores(k), self._targets > 0.0
        others = np.where(target, -math.inf, chi)
        best = np.maximum.reduceat(others, self.data.offsets[:-1])
        return np.asarray((chi[target] - best)[self.data.lengths > 1])


def check_newton_memory(dim: int, limit: str = "X must have at most {most} features") -> None:
    """Raise TooLargeError if the Hessian and its factors do not fit into the free memory."""
    needed, allowed = 4.0 * 8.0 * dim**2, allowed_memory()
    if needed > allowed:
        most = int(math.sqrt(allowed / 32.0))
        raise TooLargeError(
            f"{limit.format(most=most)} for Newton's method, got {dim} (its matrices would take "
            f"{in_gib(needed)}, {in_gib(allowed)} may be used)"
        )

r"""Tasks with several kinds of tokens, placed in a hidden arrangement.

A sequence has ``J`` relevant tokens and perhaps tokens of further kinds; the scores of all others
are ``N(0, 1)``. Every arrangement of the kinds is equally likely, and the label is ``y = J^{−1/2} Σ
z*`` over the relevant tokens. The posterior weighs arrangements, not tokens: it is not a
function of one score over a sum. Independent of how risks are computed.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.dispatch import check_task
from slrlab.model.tasks import Task, TiltedTask

_CHUNK = 1 << 22  # numbers of the partial sums in memory at a time
_STEEP = 700.0  # largest logarithm of a weight


@dataclass(frozen=True)
class TokenKind:
    """Tokens of one kind: how many a sequence has, and the mean of their scores ``N(shift, 1)``."""

    count: int
    shift: float


@dataclass(frozen=True, init=False)
class ArrangementTask(Task):
    """Tokens of several Gaussian kinds, the first one relevant, in a hidden arrangement."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[TokenKind, ...]:
        """The kinds of tokens; the label depends on the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        placed = sum(kind.count for kind in self.kinds)
        if min(self.length.lengths) < placed:
            accepted = f"at least {placed} for the task {self.name} with these parameters"
            _checks.fail("length", accepted, str(self.length))

    @property
    def shifts(self) -> FloatArray:
        """Mean score of each placed token, the relevant ones first."""
        return np.repeat([kind.shift for kind in self.kinds], [kind.count for kind in self.kinds])

    @property
    def steepness(self) -> float:
        return max(1.0, *(abs(kind.shift) for kind in self.kinds))

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.posterior(scores))

    def posterior(self, scores: FloatArray) -> FloatArray:
        """Return the mean coefficient of each token in the label given ``χ*``.

        It is ``J^{−1/2}`` times the probability that the token is a relevant one.
        """
        flat = np.asarray(scores, dtype=float).reshape(-1, scores.shape[-1])
        states = math.prod(kind.count + 1 for kind in self.kinds)
        rows = max(1, _CHUNK // (flat.shape[1] * states))
        parts = [_inclusion(flat[at : at + rows], self.kinds) for at in range(0, len(flat), rows)]
        return np.concatenate(parts).reshape(scores.shape) / math.sqrt(self.kinds[0].count)

    def sample_scores(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Draw key scores, and the location of the relevant token, or all of them as columns."""
        scores, shifts = rng.standard_normal((size, length)), self.shifts
        order = rng.permuted(np.tile(np.arange(length), (size, 1)), axis=1)[:, : shifts.size]
        np.put_along_axis(scores, order, np.take_along_axis(scores, order, 1) + shifts, 1)
        count = self.kinds[0].count
        return scores, order[:, 0] if count == 1 else order[:, :count]

    def scores_from_uniforms(self, uniforms: FloatArray) -> FloatArray:
        scores, shifts = np.asarray(special.ndtri(uniforms[:, :-1])), self.shifts
        scores[:, : shifts.size] += shifts
        return scores


def kinds_of(task: Task) -> tuple[TokenKind, ...] | None:
    """Return the kinds of a task whose scores are Gaussian given what is hidden; else None."""
    if isinstance(task, ArrangementTask):
        return task.kinds
    if isinstance(task, TiltedTask) and task.gaussian_shift is not None:
        return (TokenKind(1, task.gaussian_shift),)
    return None


def check_family(task: Task) -> None:
    """As `slrlab.model.dispatch.check_task`, but accept several kinds of tokens, too."""
    if not isinstance(task, ArrangementTask):
        check_task(task)


def relevant_count(task: Task) -> int:
    """Return the number ``J`` of relevant tokens of a sequence."""
    return task.kinds[0].count if isinstance(task, ArrangementTask) else 1


def relevant_values(values: FloatArray, location: npt.NDArray[np.int64]) -> FloatArray:
    """Return the noiseless labels ``J^{−1/2} Σ z*`` from value scores and the location of each.

    ``location`` has a number for each sequence, or a row of ``J`` of them.
    """
    rows = location.reshape(len(values), -1)
    chosen = np.take_along_axis(values, rows, axis=1)
    return np.asarray(chosen.sum(axis=1) / math.sqrt(rows.shape[1]))


def _inclusion(scores: FloatArray, kinds: tuple[TokenKind, ...]) -> FloatArray:
    """Return the probability of each token to be of the first kind.

    Sums over arrangements are coefficients of ``Π_ℓ (1 + Σ_a t_a r_a(χ_ℓ))`` at ``Π t_a^{n_a}``,
    built token by token from the left and from the right. All terms are positive.
    """
    shares = _shares(scores, kinds)
    shape = tuple(kind.count + 1 for kind in kinds)
    left, right = _partial_sums(shares, shape), _partial_sums(shares[:, ::-1], shape)
    axes = tuple(range(1, len(shape) + 1))
    flipped = [np.flip(state, axes)[:, 1:] for state in right[::-1]]  # of the tokens after each
    total = left[-1].reshape(len(scores), -1)[:, -1]
    chosen = np.stack(
        [
            share[:, 1] * (before[:, :-1] * after).sum(axis=axes)
            for share, before, after in zip(
                np.moveaxis(shares, 1, 0), left[:-1], flipped[1:], strict=True
            )
        ],
        axis=1,
    )
    # sums that underflow belong to scores far apart: then the largest ones are certain
    ranks = np.argsort(np.argsort(-scores * np.sign(kinds[0].shift or 1.0), axis=1), axis=1)
    certain = np.asarray(ranks < kinds[0].count, dtype=float)
    return np.asarray(np.divide(chosen, total[:, None], out=certain, where=total[:, None] > 0.0))


def _shares(scores: FloatArray, kinds: tuple[TokenKind, ...]) -> FloatArray:
    """Return the weights of no kind and of each kind, which sum to 1, for each token.

    A factor common to all tokens cancels; it is chosen so that about as many tokens favour a kind
    as there are: then the sums neither over- nor underflow.
    """
    logits, length = [np.zeros_like(scores)], scores.shape[1]
    order = sorted(range(len(kinds)), key=lambda index: -abs(kinds[index].shift))
    cuts = dict(
        zip(order, itertools.accumulate(kinds[index].count for index in order), strict=True)
    )
    for index, kind in enumerate(kinds):
        logit = kind.shift * scores
        ordered = np.sort(logit, axis=1)[:, ::-1]
        near = [min(max(rank, 0), length - 1) for rank in (cuts[index] - 1, cuts[index])]
        logits.append(logit - ordered[:, near].mean(axis=1, keepdims=True))
    return np.asarray(special.softmax(np.clip(np.stack(logits, axis=2), -_STEEP, _STEEP), axis=2))


def _partial_sums(shares: FloatArray, shape: tuple[int, ...]) -> list[FloatArray]:
    """Return, before each token and at the end, the sums over arrangements of the tokens so far."""
    state = np.zeros((len(shares), *shape))
    state.reshape(len(shares), -1)[:, 0] = 1.0
    states = [state]
    for token in range(shares.shape[1]):
        share = shares[:, token].reshape(len(shares), -1, *(1 for _ in shape))
        state = share[:, 0] * states[-1]
        for axis in range(1, len(shape) + 1):
            ahead, behind = (
                tuple(cut if one == axis else slice(None) for one in range(len(shape) + 1))
                for cut in (slice(1, None), slice(None, -1))
            )
            state[ahead] += (share[:, axis] * states[-1])[behind]
        states.append(state)
    return states

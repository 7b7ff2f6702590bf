r"""Associative capacity: how many key-value pairs one attention layer can store and read.

The test of Schlag, Irie and Schmidhuber (2021, arXiv 2102.11174), setting 1. A sequence holds ``N``
distinct keys in random order, each with one of ``N`` distinct values; values are orthonormal
vectors. A query repeats one key, and the layer must return its value; the loss is ``½‖value −
answer‖²``. Keys are ``W_k [value, embedding of the key] + b_k``, queries ``W_q embedding + b_q``;
embeddings, projections and biases are trained. Values are orthonormal and the order of the pairs
does not matter, so the loss of query ``i`` is ``½(Σ_j a_j² − 2 a_i + 1)`` with the weights ``a`` of
its attention. Independent of published measurements.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import FloatArray, Report
from slrlab.retrieval.feature_maps import FeatureMap

EVALUATIONS = 100
"""Steps between two evaluations."""
_SEQUENCES = 20  # number of sequences of an evaluation
_QUERIES = 200  # largest number of queries of an evaluated sequence: those of the first keys
_LAST = 5  # evaluations of the mean whose change is the drift
_EMBEDDING = 2.2  # size of the embedding of a key, for each pair


@dataclass(frozen=True)
class CapacityRun(Result):
    """One training of the capacity test.

    Attributes
    ----------
    status
        ``sampled``; ``not converged`` if ``max_steps`` ended the training.
    ended
        Why training ended: ``solved`` (the loss is at most the tolerance), ``no progress`` (no new
        least loss in ``patience + 1`` evaluations) or ``max_steps``.
    loss
        Last evaluation, averaged as the published code does: see `query_weights`.
    best_loss
        Least evaluation.
    mean_loss, mean_loss_error
        Loss after training with the same weight for each of the ``N`` queries, and its standard
        error over sequences.
    floor
        Least ``mean_loss`` of any map of this dimension: see `capacity_floor`.
    drift
        Mean of the last five evaluations minus that of the five before; nan if there are fewer.
    dimension
        Number of features ``m``, infinite for softmax.
    losses
        All evaluations, one each `EVALUATIONS` steps.
    """

    feature_map: str
    pairs: int
    key_size: int
    dimension: float
    seed: int
    ended: str
    steps: int
    loss: float
    best_loss: float
    mean_loss: float
    mean_loss_error: float
    floor: float
    drift: float
    losses: tuple[float, ...]
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.feature_map}, {self.pairs} pairs: loss {self.loss:.3g} after {self.steps} "
            f"steps ({self.ended}), floor {self.floor:.3g}"
        )


def capacity_floor(pairs: int, dimension: float, weights: FloatArray | None = None) -> float:
    r"""Return the least loss that any feature map of a dimension can have.

    The answers to all ``N`` queries of a sequence form ``A V``, with attention ``A`` of rank at
    most ``m`` and orthonormal values ``V``. The mean loss is ``‖1 − A‖²/(2N)``, so by Eckart and
    Young it is at least ``½(1 − m/N)``. Keys in ``m`` groups that share their features reach it,
    with weights that are positive and sum to 1. If the mean over queries has ``weights``, the floor
    is half the sum of the ``N − m`` smallest.

    Parameters
    ----------
    pairs, dimension
        ``N`` and ``m``; ``m`` may be infinite.
    weights
        Weight of each query in the mean; None for equal ones.

    Examples
    --------
    >>> from slrlab.retrieval import capacity_floor
    >>> capacity_floor(128, 64), capacity_floor(64, 64)
    (0.25, 0.0)
    """
    pairs = _checks.integer(pairs, "pairs")
    dimension = _checks.positive(dimension, "dimension", finite=False)
    missing = max(0, pairs - int(min(dimension, pairs)))
    shares = np.full(pairs, 1.0 / pairs) if weights is None else np.sort(np.asarray(weights))
    if shares.shape != (pairs,):
        _checks.fail("weights", f"{pairs} numbers", shares.shape)
    return float(shares[:missing].sum() / 2.0)


def query_weights(pairs: int, batch: int = 32) -> FloatArray:
    """Return the weight of each query in the published mean loss; they sum to 1.

    It is a mean over the means of batches, of which the last may be smaller, and over the queries
    of the first 200 keys.

    Examples
    --------
    >>> from slrlab.retrieval.capacity import query_weights
    >>> weights = query_weights(100)
    >>> float(weights[0]), float(weights[-1])
    (0.0078125, 0.0625)
    """
    weights = np.zeros(pairs)
    parts = _parts(min(pairs, _QUERIES), batch)
    for first, last in parts:
        weights[first:last] = 1.0 / (last - first) / len(parts)
    return weights


def _parts(count: int, batch: int) -> list[tuple[int, int]]:
    return [(first, min(first + batch, count)) for first in range(0, count, batch)]


class Layer:
    """The layer: its parameters, fresh sequences, losses and steps of Adam.

    All parameters are parts of one vector, which Adam updates in one pass.
    """

    def __init__(self, feature_map: FeatureMap, pairs: int, size: int, seed: int) -> None:
        self._map, self._rng = feature_map, np.random.default_rng(seed)
        self.pairs, wide = pairs, int(_EMBEDDING * pairs)
        fans = {"key": wide + pairs, "query": wide}
        shapes = ((pairs, wide), (wide, size), (pairs, size), (size,), (wide, size), (size,))
        self._values, self._slopes, self._first, self._second = (
            np.zeros(sum(map(math.prod, shapes)), dtype=np.float32) for _ in range(4)
        )
        self.parameters, self.gradients = (_views(x, shapes) for x in (self._values, self._slopes))
        self.parameters.embedding[...] = self._rng.standard_normal((pairs, wide))
        for name, fan in fans.items():
            bound = math.sqrt(6.0 / (fan + size)) if feature_map.is_softmax else size**-0.5
            for part in ("map", "offset"):
                matrix = getattr(self.parameters, f"{name}_{part}", None)
                if matrix is not None:
                    matrix[...] = self._rng.uniform(-bound, bound, matrix.shape)
            bias = getattr(self.parameters, f"{name}_bias")
            bias[...] = self._rng.uniform(-(fan**-0.5), fan**-0.5, size)
        self.steps = 0

    def sequences(self, count: int) -> npt.NDArray[np.int64]:
        """Draw sequences: the value of each key."""
        return self._rng.permuted(np.tile(np.arange(self.pairs), (count, 1)), axis=1)

    def losses(
        self, values: npt.NDArray[np.int64], asked: npt.NDArray[np.int64], *, slopes: bool = False
    ) -> FloatArray:
        """Return the loss of each query, and with ``slopes`` set the gradients of their mean.

        ``values[b, j]`` is the value of key ``j`` in sequence ``b``, ``asked[b]`` are keys.
        """
        from slrlab.retrieval.capacity_kernel import capacity_losses

        own, own_slopes = self.parameters, self.gradients
        table = own.embedding @ own.key_map + own.key_bias
        seen = own.embedding[asked]
        queries = seen @ own.query_map + own.query_bias
        like = [np.zeros_like(x if slopes else x[:0]) for x in (table, own.key_offset, queries)]
        losses: FloatArray = capacity_losses(
            self._map.code,
            self._map.number,
            self._map.directions(table.shape[1], self._rng),
            table,
            own.key_offset,
            values,
            queries,
            asked,
            tuple(like),
        )
        if slopes:
            d_table, own_slopes.key_offset[...], d_queries = like
            own_slopes.key_map[...] = own.embedding.T @ d_table
            own_slopes.key_bias[...] = d_table.sum(axis=0)
            flat, count = d_queries.reshape(-1, d_queries.shape[-1]), asked.size
            own_slopes.query_map[...] = seen.reshape(count, -1).T @ flat
            own_slopes.query_bias[...] = flat.sum(axis=0)
            own_slopes.embedding[...] = d_table @ own.key_map.T
            np.add.at(own_slopes.embedding, asked.ravel(), flat @ own.query_map.T)
        return losses

    def descend(self, steps: int, batch: int, rate: float) -> None:
        """Take steps of Adam, each on fresh sequences with one query."""
        from slrlab.retrieval.capacity_kernel import adam_step

        for _ in range(steps):
            self.losses(
                self.sequences(batch), self._rng.integers(self.pairs, size=(batch, 1)), slopes=True
            )
            self.steps += 1
            adam_step(self._values, self._slopes, self._first, self._second, self.steps, rate)

    def evaluate(self, batch: int, queries: int) -> FloatArray:
        """Return the loss of the first queries of fresh sequences, ``(sequences, queries)``."""
        # random projections are drawn again for each sequence
        groups = np.split(self.sequences(_SEQUENCES), _SEQUENCES if self._map.is_random else 1)
        return np.block(
            [
                [
                    self.losses(group, np.tile(np.arange(first, last), (len(group), 1)))
                    for first, last in _parts(queries, batch)
                ]
                for group in groups
            ]
        )


class Parameters(NamedTuple):
    """Parts of the vector of all parameters: see the head of this module."""

    embedding: npt.NDArray[np.float32]
    key_map: npt.NDArray[np.float32]
    key_offset: npt.NDArray[np.float32]
    key_bias: npt.NDArray[np.float32]
    query_map: npt.NDArray[np.float32]
    query_bias: npt.NDArray[np.float32]


def _views(vector: npt.NDArray[np.float32], shapes: tuple[tuple[int, ...], ...]) -> Parameters:
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = zip(np.split(vector, ends), shapes, strict=True)
    return Parameters(*(part.reshape(shape) for part, shape in parts))


def train_capacity(
    feature_map: str = "elu+1",
    pairs: int = 100,
    *,
    key_size: int = 64,
    batch: int = 32,
    rate: float = 1e-3,
    tolerance: float = 1e-3,
    patience: int = 10,
    max_steps: int = 20_000,
    seed: int = 0,
    report: Report | None = None,
) -> CapacityRun:
    r"""Train one attention layer to store and read ``N`` key-value pairs (Schlag et al. 2021).

    Adam on fresh sequences, with an evaluation on 20 further sequences every 100 steps. Training
    ends when an evaluation is at most the tolerance, or when more than ``patience`` evaluations in
    a row bring no new least loss.

    Parameters
    ----------
    feature_map
        ``softmax``, ``elu+1``, ``dpfp-NU`` or ``favor-M``.
    pairs, key_size
        Number ``N`` of pairs, and the size ``d`` of keys and queries before the feature map.
    batch, rate, tolerance, patience
        Sequences in a step, rate of Adam, and when to stop; the published values are the defaults.
    max_steps
        Largest number of steps; the published one is 100,000.
    seed
        Seed of the start and of all sequences.
    report
        Called as ``report(done, total, label)`` after each evaluation.

    Raises
    ------
    ValueError, TypeError
        If the feature map is unknown, or a number is not positive or above its bound.
    """
    chosen = FeatureMap.of(feature_map)
    pairs = _checks.integer(pairs, "pairs", low=2, high=10_000)
    key_size = _checks.integer(key_size, "key_size", low=2, high=10_000)
    batch, seed = _checks.integer(batch, "batch"), _checks.integer(seed, "seed", low=0)
    rate, tolerance = _checks.positive(rate, "rate"), _checks.positive(tolerance, "tolerance")
    patience = _checks.integer(patience, "patience", low=0)
    max_steps = _checks.integer(max_steps, "max_steps", low=EVALUATIONS)
    began = time.perf_counter()
    layer = Layer(chosen, pairs, key_size, seed)
    losses: list[float] = []
    ended = "max_steps"
    seen, shares = min(pairs, _QUERIES), query_weights(pairs, batch)
    for _ in range(max_steps // EVALUATIONS):
        layer.descend(EVALUATIONS, batch, rate)
        mean = layer.evaluate(batch, seen).mean(axis=0)
        losses.append(float(mean @ shares[:seen]))
        if report is not None:
            label = f"{feature_map}, {pairs} pairs: loss {losses[-1]:.4f}"
            report(len(losses) * EVALUATIONS, max_steps, label)
        if losses[-1] <= tolerance:
            ended = "solved"
            break
        if len(losses) - 1 - int(np.argmin(losses)) > patience:
            ended = "no progress"
            break
    by_sequence = layer.evaluate(batch, pairs).mean(axis=1)
    dimension = chosen.dimension(key_size)
    last = np.array(losses[-2 * _LAST :])
    return CapacityRun(
        status=Status.NOT_CONVERGED if ended == "max_steps" else Status.SAMPLED,
        feature_map=chosen.name,
        pairs=pairs,
        key_size=key_size,
        dimension=dimension,
        seed=seed,
        ended=ended,
        steps=len(losses) * EVALUATIONS,
        loss=losses[-1],
        best_loss=min(losses),
        mean_loss=float(by_sequence.mean()),
        mean_loss_error=float(by_sequence.std(ddof=1)) / math.sqrt(_SEQUENCES),
        floor=capacity_floor(pairs, dimension),
        drift=float(last[_LAST:].mean() - last[:_LAST].mean())
        if len(last) == 2 * _LAST
        else math.nan,
        losses=tuple(losses),
        seconds=time.perf_counter() - began,
    )

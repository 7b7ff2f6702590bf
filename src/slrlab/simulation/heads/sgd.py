r"""Online SGD of several heads on fresh sequences of multi-head single-location regression.

A step of rate ``η`` subtracts ``η ∂ρ²/∂k`` of one sequence and takes the time ``η/D``, as for one
head (`slrlab.online_sgd`). Independent of the theory of the flow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import TooLargeError
from slrlab._machine import allowed_memory, in_gib
from slrlab._result import Estimate, Status
from slrlab._types import FloatArray, Report
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import SOFTMAX, Activation
from slrlab.model.heads import (
    BAYES_SOFTMAX,
    MultiHeadSLR,
    head_weights,
    make_heads_activation,
)
from slrlab.model.heads_path import HeadsOverlaps, HeadsPath
from slrlab.simulation.data.packing import offsets_of

_BLOCK = 1 << 21  # numbers of fresh tokens held at a time: part of the meaning of a seed
_RUNAWAY = 1e4  # |k|²/D or |v|²/D from which a path counts as diverged
TESTS = 2000  # sequences that measure the risk
_TEACHERS, _START, _TEST, _FRESH = range(4)


@dataclass(frozen=True)
class HeadsData:
    """Sequences without padding: sequence ``i`` is ``tokens[offsets[i]:offsets[i + 1]]``."""

    tokens: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    labels: FloatArray


def draw_teachers(task: MultiHeadSLR, dim: int, seed: int = 0) -> FloatArray:
    """Return ``2K`` orthogonal rows of squared length ``D``: ``k*_1 … k*_K, v*_1 … v*_K``."""
    count = 2 * task.directions
    if dim < count:
        _checks.fail("dim", f"at least {count}, two for each direction", dim)
    normals = _generator(seed, _TEACHERS).standard_normal((dim, count))
    return np.asarray(np.linalg.qr(normals)[0].T * math.sqrt(dim))


def check_heads_memory(task: MultiHeadSLR, dim: int, heads: int, tests: int = TESTS) -> None:
    """Raise TooLargeError if test sequences and vectors do not fit into the free memory."""
    # tokens of 4 bytes, drawn and shifted; teachers, their factors, start and vectors of 8
    one = 8.0 * task.length.mean * tests + 8.0 * (6.0 * task.directions + 4.0 * heads)
    needed, allowed = one * dim, allowed_memory()
    if needed > allowed:
        raise TooLargeError(
            f"dim must be at most {int(allowed / one)} with {tests} test sequences of length "
            f"{task.length.mean:.4g}, got {dim} (they would take {in_gib(needed)}, "
            f"{in_gib(allowed)} may be used)"
        )


def draw_heads_data(
    task: MultiHeadSLR, teachers: FloatArray, samples: int, rng: np.random.Generator
) -> HeadsData:
    """Draw labelled sequences in ``R^D``, the relevant token at a random location."""
    K, dim = task.directions, teachers.shape[1]
    lengths = task.length.sample(rng, samples)
    offsets = offsets_of(lengths)
    tokens = rng.standard_normal((int(offsets[-1]), dim), dtype=np.float32)
    chosen = rng.choice(K, size=samples, p=task.probabilities)
    rows = offsets[:-1] + rng.integers(lengths)
    shifts = np.sqrt(task.signals)[chosen] / math.sqrt(dim)
    tokens[rows] += (shifts[:, None] * teachers[chosen]).astype(np.float32)
    values = np.einsum("nd,nd->n", tokens[rows].astype(float), teachers[K + chosen])
    noise = task.noise * rng.standard_normal(samples)
    return HeadsData(tokens, offsets, values / math.sqrt(dim) + noise)


def heads_start(
    teachers: FloatArray, heads: int, *, size: float, overlap: float = 0.0, seed: int = 0
) -> FloatArray:
    """Return random vectors, rows ``k_1 … k_H, v_1 … v_H``.

    Entries have the standard deviation ``size``. Keys have random overlaps with ``k*``, and values
    with ``v*``, of standard deviation ``overlap``, beside those of order ``1/√D``.
    """
    rng, (count, dim) = _generator(seed, _START), teachers.shape
    vectors = size * rng.standard_normal((2 * heads, dim))
    added = overlap * rng.standard_normal((2, heads, count // 2))
    sides = teachers.reshape(2, count // 2, dim)
    return np.asarray(vectors + (added @ sides).reshape(2 * heads, dim))


def heads_sgd(
    task: MultiHeadSLR,
    activation: Activation | str,
    *,
    heads: int,
    dim: int,
    rate: float,
    time: float,
    start: FloatArray | None = None,
    size: float = 0.1,
    overlap: float = 0.0,
    record: int = 61,
    test_samples: int = TESTS,
    seed: int = 0,
    report: Report | None = None,
) -> HeadsPath:
    r"""Train several heads on fresh sequences, each used once.

    Parameters
    ----------
    task, activation
        Task, and attention of each head or ``"bayes-softmax"``; free biases are learned, one for
        each head, from 0.
    heads, dim
        Number ``H`` of heads, and ``D``.
    rate, time
        ``η > 0`` of order one, and the end of the path; a step takes ``η/D``.
    start
        Vectors of ``R^D``, rows ``k_1 … k_H, v_1 … v_H``; None for random ones.
    size, overlap
        Standard deviation of the entries of a random start, and of further overlaps of its keys
        with ``k*`` and its values with ``v*``.
    record
        Number of times that are kept.
    test_samples
        Further sequences that measure the risk.
    seed
        Seed of teachers, start and sequences.
    report
        Called as ``report(done, total, label)``.

    Returns
    -------
    HeadsPath
        Overlaps of all heads and the risk at the recorded times.

    Examples
    --------
    >>> from slrlab import MultiHeadSLR, heads_sgd
    >>> task = MultiHeadSLR(4.0, 3, directions=2)
    >>> path = heads_sgd(task, "softmax", heads=2, dim=50, rate=0.2, time=1.0)
    >>> path.keys.shape, str(path.status)
    ((61, 2, 2), 'sampled')
    """
    chosen = make_heads_activation(activation)
    heads, dim = _checks.integer(heads, "heads"), _checks.integer(dim, "dim", low=4)
    rate, time = _checks.positive(rate, "rate"), _checks.positive(time, "time")
    record = _checks.integer(record, "record", low=2)
    seed = _checks.integer(seed, "seed", low=0)
    test_samples = _checks.integer(test_samples, "test_samples", low=2)
    check_heads_memory(task, dim, heads, test_samples)
    teachers = draw_teachers(task, dim, seed)
    if start is None:
        own: dict[str, Any] = {"size": _checks.positive(size, "size"), "seed": seed}
        own["overlap"] = _checks.non_negative(overlap, "overlap")
        start = heads_start(teachers, heads, **own)
    elif np.shape(start) != (2 * heads, dim) or not np.isfinite(start).all():
        _checks.fail("start", f"finite vectors of shape ({2 * heads}, {dim})", np.shape(start))
    test = draw_heads_data(task, teachers, test_samples, _generator(seed, _TEST))
    total = math.ceil(time * dim / rate - 1e-9)
    run = _Run(task, chosen, np.array(start, dtype=float) / math.sqrt(dim), rate, seed)
    stops = np.linspace(0, total, min(record, total + 1)).round().astype(int).tolist()
    rows: list[tuple[FloatArray, ...]] = []
    status, done = Status.SAMPLED, 0
    for stop in stops:
        run.advance(teachers, stop - done)
        done = stop
        if run.ran_away:
            status = Status.DIVERGED
            break
        rows.append(run.measured(teachers, test))
        if report is not None:
            report(stop, total, f"heads: step {stop}")
    return _path(task, chosen, np.array(stops[: len(rows)]) * rate / dim, rows, rate, status)


def _path(
    task: MultiHeadSLR,
    activation: Activation | None,
    times: FloatArray,
    rows: list[tuple[FloatArray, ...]],
    rate: float,
    status: Status,
) -> HeadsPath:
    m, q, bias, risk = (np.array(column) for column in zip(*rows, strict=True))
    heads, K = bias.shape[1], task.directions
    crossed = [np.abs(part).max(axis=(1, 2)) for part in (m[:, :heads, K:], m[:, heads:, :K])]
    return HeadsPath(
        status=status,
        times=times,
        keys=m[:, :heads, :K],
        values=m[:, heads:, K:],
        crossed=np.maximum(*crossed),
        q=q,
        bias=bias,
        risk=risk[:, 0],
        risk_error=risk[:, 1],
        method="online sgd",
        rate=rate,
        activation=BAYES_SOFTMAX if activation is None else activation.name,
        task=task,
    )


class _Run:
    """State of a descent; its vectors contain the factor ``1/√D``."""

    def __init__(
        self,
        task: MultiHeadSLR,
        activation: Activation | None,
        vectors: FloatArray,
        rate: float,
        seed: int,
    ) -> None:
        self.task, self.activation, self.vectors = task, activation, vectors
        self.heads = len(vectors) // 2
        self.size = 2.0 * rate / vectors.shape[1]
        self.code = activation_code(activation or SOFTMAX, task.length.longest)
        if self.code.scales.size:
            name = "" if activation is None else activation.name
            _checks.fail("activation", "one that does not see the length to be trained", name)
        own = 0.0 if activation is None else activation.bias or 0.0
        self.biases = np.full(self.heads, own)
        self.learns_bias = activation is not None and activation.bias is None
        self._data, self._at = self._blocks(seed), 0
        self._block: HeadsData | None = None

    def _blocks(self, seed: int) -> Iterator[np.random.Generator]:
        return (_generator(seed, _FRESH, number) for number in range(1 << 40))

    def advance(self, teachers: FloatArray, count: int) -> None:
        """Take a number of steps on fresh sequences."""
        from slrlab.simulation.heads.sgd_kernel import descend_heads

        size = max(1, int(_BLOCK / (teachers.shape[1] * self.task.length.mean)))
        while count > 0:
            if self._block is None or self._at == self._block.labels.size:
                self._block = draw_heads_data(self.task, teachers, size, next(self._data))
                self._at = 0
            part = slice(self._at, min(self._at + count, self._block.labels.size))
            taken = part.stop - part.start
            offsets = self._block.offsets[part.start : part.stop + 1]
            sizes = (self.size, self.size if self.learns_bias else 0.0, self.activation is None)
            code = (self.code.numbers, self.code.table)
            given: tuple[Any, ...] = (self._block.tokens, offsets, self._block.labels[part])
            given += (self.vectors, self.biases, *sizes, *code)
            with np.errstate(over="ignore", invalid="ignore"):
                descend_heads(*given)
            self._at, count = self._at + taken, count - taken

    @property
    def ran_away(self) -> bool:
        squares = np.einsum("ad,ad->a", self.vectors, self.vectors)
        return not bool((squares < _RUNAWAY).all())

    def measured(self, teachers: FloatArray, test: HeadsData) -> tuple[FloatArray, ...]:
        """Return overlaps, biases, and the risk with its error."""
        root = math.sqrt(teachers.shape[1])
        overlaps = HeadsOverlaps.of(self.vectors * root, teachers)
        biases = self.biases.copy()
        if self.activation is None:
            biases = -math.log(self.heads) - np.diag(overlaps.q)[: self.heads] / 2.0
        answers = predict(self.activation, self.vectors, biases, test)
        risk = Estimate.of((test.labels - answers) ** 2)
        return overlaps.m, overlaps.q, biases, np.array([risk.value, risk.error])


def predict(
    activation: Activation | None, vectors: FloatArray, biases: FloatArray, data: HeadsData
) -> FloatArray:
    """Return the answers of heads; the vectors contain the factor ``1/√D``."""
    fields: FloatArray = (data.tokens @ vectors.T.astype(np.float32)).astype(np.float64)
    heads, answers = biases.size, np.empty(data.labels.size)
    lengths = np.diff(data.offsets)
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        own = fields[data.offsets[same, None] + np.arange(length)]
        weights = head_weights(activation, own[..., :heads], biases)
        answers[same] = (weights * own[..., heads:]).sum(axis=(1, 2))
    return answers


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))

r"""Single-location regression in context: one attention head, trained by descent on fresh sequences.

The head is ``f(X) = σ(Xk/√D)ᵀ Xv/√D`` with trainable ``k`` and ``v``, the tokens are Gaussian in
``R^D``: here the theory with infinite data applies exactly, at any ``D``, because each sequence is
used once and the least risk does not depend on ``D``. This module must not know that theory.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task, check_task
from slrlab.retrieval.capacity import one_thread
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.feature_maps import Tensor

ACTIVATIONS = ("softmax", "linear")
OPTIMISERS = ("sgd", "adam")
_RATES = {"sgd": 0.3, "adam": 0.03}
_WARM = 0.3  # share of the steps at the full rate; then it falls to 0 along a cosine
_CHUNK = 4096  # test sequences held at a time
_RUNAWAY = 1e3  # |k|²/D or |v|²/D from which training counts as diverged
_DRAWS = np.dtype("float32")


@dataclass(frozen=True)
class InContextRun(Result):
    """A head that was trained on single-location regression.

    Attributes
    ----------
    status
        ``sampled``; ``diverged`` if the vectors grew without bound.
    risk, error
        Mean squared error on fresh sequences, and its standard error.
    m_k, m_v, R_k, R_v
        Overlaps ``k·k*/D`` and ``v·v*/D``, and the squared norms per dimension of what remains.
    m_kv, m_vk
        Overlaps of the keys with ``v*`` and of the values with ``k*``: large for a head that ended
        in the mismatched minimum.
    keys, values, teachers
        The vectors: ``k``, ``v``, and the rows ``k*``, ``v*``.
    """

    risk: float
    error: float
    m_k: float
    m_v: float
    R_k: float
    R_v: float
    m_kv: float
    m_vk: float
    dim: int
    optimiser: str
    rate: float
    batch: int
    steps: int
    seed: int
    seconds: float
    setting: Setting
    keys: FloatArray = field(repr=False, compare=False)
    values: FloatArray = field(repr=False, compare=False)
    teachers: FloatArray = field(repr=False, compare=False)

    @property
    def matched(self) -> bool:
        """Whether keys and values point to their own teachers, not to each other's."""
        return abs(self.m_k) > abs(self.m_kv) and abs(self.m_v) > abs(self.m_vk)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values, without the vectors."""
        values = super().to_dict()
        return {
            name: value
            for name, value in values.items()
            if name not in ("keys", "values", "teachers")
        }

    def scores(
        self, sequences: int = 2000, *, seed: int = 0
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return scores of the head on fresh sequences, nan as padding, and the locations.

        They are what `slrlab.diagnose_scores` takes.

        Raises
        ------
        ValueError
            If the number of sequences or the seed is out of range.
        """
        sequences = _checks.integer(sequences, "sequences", high=10**6)
        rng = np.random.default_rng([_checks.integer(seed, "seed", low=0), 2])
        data = draw_sequences(self.setting.task, self.teachers, sequences, rng)
        scores = data.tokens @ (self.keys / math.sqrt(self.dim))
        return np.where(data.seen, scores, math.nan).astype(float), data.locations


@dataclass(frozen=True)
class Sequences:
    """Labelled sequences ``(n, L, D)``; ``seen`` is false at tokens that only fill up."""

    tokens: npt.NDArray[np.float32]
    seen: npt.NDArray[np.bool_]
    labels: FloatArray
    locations: npt.NDArray[np.int64]


def draw_sequences(
    task: Task, teachers: FloatArray, count: int, rng: np.random.Generator
) -> Sequences:
    """Draw sequences of Gaussian tokens whose scores along ``k*`` have the law of the task."""
    dim, longest = teachers.shape[1], task.length.longest
    key, value = teachers / math.sqrt(dim)  # of length 1
    lengths = task.length.sample(rng, count)
    tokens = rng.standard_normal((count, longest, dim), dtype=_DRAWS)
    scores, locations = np.zeros((count, longest)), np.zeros(count, dtype=np.int64)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        scores[rows, :length], locations[rows] = task.sample_scores(rng, len(rows), int(length))
    # replace what the tokens are along k*; all other directions stay as drawn
    tokens += (scores - tokens @ key)[..., None].astype(_DRAWS) * key.astype(_DRAWS)
    labels = tokens[np.arange(count), locations] @ value
    labels = labels + task.noise * rng.standard_normal(count)
    seen = np.arange(longest) < lengths[:, None]
    return Sequences(tokens, seen, labels.astype(float), locations)


def _predict(torch: Any, activation: str, tokens: Tensor, seen: Tensor, vectors: Tensor) -> Tensor:
    """Return ``σ(χ)ᵀz`` for vectors ``(D, 2)``."""
    scores, values = (tokens @ vectors / math.sqrt(vectors.shape[0])).unbind(-1)
    if activation == "softmax":
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
    else:
        weights = (1.0 + scores) * seen
    return (weights * values).sum(dim=-1)


def train_incontext(
    task: Task,
    activation: str = "softmax",
    *,
    dim: int = 20,
    optimiser: str = "sgd",
    rate: float | None = None,
    batch: int = 128,
    steps: int = 4000,
    start: float = 0.3,
    test_samples: int = 100_000,
    seed: int = 0,
    report: Report | None = None,
) -> InContextRun:
    r"""Train an attention head on fresh sequences of single-location regression.

    Parameters
    ----------
    task
        A `SpikedSLR`, a `MaxSLR` or any other tilted or selection task of Gaussian tokens.
    activation
        ``softmax`` or ``linear``.
    dim
        Dimensions ``D``.
    optimiser, rate
        ``sgd``, whose steps are ``rate·D`` times the gradient, or ``adam``; a rate of None is 0.3
        or 0.03. It falls to 0 along a cosine after 30 % of the steps.
    batch, steps
        Fresh sequences in a step, and steps.
    start
        Standard deviation of the entries of ``k`` and ``v`` at the start.
    test_samples
        Further sequences that measure the risk.
    seed
        Seed of teachers, start and all sequences.
    report
        Called as ``report(done, total, label)``.

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong.
    SlrlabError
        If the extra ``retrieval`` is not installed.
    """
    check_task(task)
    if task.relevant_std != 1.0 or math.isinf(task.signal) and task.gaussian_shift is not None:
        _checks.fail("task", "a task of Gaussian tokens with a finite shift", task)
    _checks.choice(activation, "activation", ACTIVATIONS)
    _checks.choice(optimiser, "optimiser", OPTIMISERS)
    dim = _checks.integer(dim, "dim", low=2, high=10_000)
    step = _RATES[optimiser] if rate is None else _checks.positive(rate, "rate")
    batch, steps = _checks.integer(batch, "batch", high=10**5), _checks.integer(steps, "steps")
    start = _checks.positive(start, "start")
    test_samples = _checks.integer(test_samples, "test_samples", low=2)
    seed = _checks.integer(seed, "seed", low=0)
    torch = import_torch()
    began = time.perf_counter()
    rng = np.random.default_rng([seed, 0])
    teachers = np.linalg.qr(rng.standard_normal((dim, 2)))[0].T * math.sqrt(dim)
    with one_thread(torch):
        vectors = torch.tensor(start * rng.standard_normal((dim, 2)), dtype=torch.float32)
        vectors.requires_grad_()
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser]
        descent = kind([vectors], lr=step * (dim if optimiser == "sgd" else 1.0))
        schedule = torch.optim.lr_scheduler.LambdaLR(descent, lambda done: _share(done / steps))
        status = Status.SAMPLED
        for done in range(steps):
            descent.zero_grad()
            _squares(torch, activation, task, teachers, batch, rng, vectors).mean().backward()
            descent.step()
            schedule.step()
            if done % 100 == 99:
                if report is not None:
                    report(done + 1, steps, f"{activation} in context")
                if not float(vectors.detach().square().mean()) < _RUNAWAY:
                    status = Status.DIVERGED
                    break
        risk, error = _measure(torch, activation, task, teachers, test_samples, seed, vectors)
    keys, values = np.asarray(vectors.detach().T, dtype=float)
    (m_k, m_kv), (m_vk, m_v) = np.stack([keys, values]) @ teachers.T / dim
    return InContextRun(
        status=status,
        risk=risk,
        error=error,
        m_k=float(m_k),
        m_v=float(m_v),
        R_k=float(keys @ keys / dim - m_k**2),
        R_v=float(values @ values / dim - m_v**2),
        m_kv=float(m_kv),
        m_vk=float(m_vk),
        dim=dim,
        optimiser=optimiser,
        rate=step,
        batch=batch,
        steps=steps,
        seed=seed,
        seconds=time.perf_counter() - began,
        setting=Setting(task, make_activation(activation)),
        keys=keys,
        values=values,
        teachers=teachers,
    )


def _share(done: float) -> float:
    """Return the share of the full rate."""
    return 1.0 if done < _WARM else 0.5 + 0.5 * math.cos(math.pi * (done - _WARM) / (1.0 - _WARM))


def _squares(
    torch: Any,
    activation: str,
    task: Task,
    teachers: FloatArray,
    count: int,
    rng: np.random.Generator,
    vectors: Tensor,
) -> Tensor:
    """Return the squared errors on fresh sequences."""
    data = draw_sequences(task, teachers, count, rng)
    tokens, seen = torch.from_numpy(data.tokens), torch.from_numpy(data.seen)
    labels = torch.from_numpy(data.labels).float()
    return (labels - _predict(torch, activation, tokens, seen, vectors)).square()


def _measure(
    torch: Any,
    activation: str,
    task: Task,
    teachers: FloatArray,
    samples: int,
    seed: int,
    vectors: Tensor,
) -> tuple[float, float]:
    """Return risk and its standard error on fresh sequences, with a stream of their own."""
    rng, parts = np.random.default_rng([seed, 1]), []
    with torch.no_grad():
        for first in range(0, samples, _CHUNK):
            count = min(_CHUNK, samples - first)
            squares = _squares(torch, activation, task, teachers, count, rng, vectors)
            parts.append(np.asarray(squares, dtype=float))
    every = np.concatenate(parts)
    return float(every.mean()), float(every.std(ddof=1)) / math.sqrt(samples)

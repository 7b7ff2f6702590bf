"""Linear recurrences in chunks: memory grows with the length, not with its square.

Inside a chunk the outputs are sums over earlier tokens; from chunk to chunk a matrix of the size of
the keys times that of the values is carried. Every exponential is of a number below zero, so that
nothing overflows. The tests compare both with the recurrences token by token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slrlab.retrieval.extra import import_torch

Tensor = Any
CHUNK, GATED_CHUNK = 64, 8


def decayed_scan(
    queries: Tensor, keys: Tensor, values: Tensor, log_decay: float = 0.0, *, chunk: int = CHUNK
) -> Tensor:
    """Return ``o_t = q_t S_t`` with ``S_t = e^{log_decay} S_{t−1} + k_tᵀ v_t``.

    All have the shape ``(sequences, length, size)``; without decay it is linear attention.
    """
    torch = import_torch()
    length = keys.shape[1]
    chunk = min(chunk, length)
    q, k, v = (_split(one, chunk) for one in (queries, keys, values))
    at = torch.arange(chunk, dtype=q.dtype)
    gap = at[:, None] - at
    inside = torch.where(gap >= 0.0, torch.exp(log_decay * gap.clamp(min=0.0)), 0.0)
    outputs = (q @ k.mT * inside) @ v
    if q.shape[1] > 1:
        added = (k * torch.exp(log_decay * (chunk - 1 - at))[:, None]).mT @ v
        kept = math.exp(log_decay * chunk)
        states = _carried(added, [kept] * q.shape[1])
        outputs = outputs + (q * torch.exp(log_decay * (at + 1.0))[:, None]) @ states
    return outputs.flatten(1, 2)[:, :length]


def gated_scan(
    queries: Tensor, keys: Tensor, values: Tensor, log_gates: Tensor, *, chunk: int = GATED_CHUNK
) -> Tensor:
    """Return ``o_t = q_t S_t`` with ``S_t = diag(e^{log_gates_t}) S_{t−1} + k_tᵀ v_t``.

    Gates have the shape of the keys, and are at most 1.
    """
    torch = import_torch()
    length = keys.shape[1]
    chunk = min(chunk, length)
    q, k, v, g = (_split(one, chunk) for one in (queries, keys, values, log_gates))
    g = g.cumsum(2)
    later = torch.ones(chunk, chunk, dtype=torch.bool).triu(1)[..., None]
    gap = (g[:, :, :, None] - g[:, :, None]).masked_fill(later, -math.inf)
    scores = (gap.exp() * k[:, :, None] * q[:, :, :, None]).sum(-1)
    outputs = scores @ v
    left = g[:, :, -1:]
    added, kept = (k * (left - g).exp()).mT @ v, left.exp().mT
    outputs = outputs + (q * g.exp()) @ _carried(added, kept.unbind(1))
    return outputs.flatten(1, 2)[:, :length]


def _carried(added: Tensor, kept: Sequence[Any]) -> Tensor:
    """Return the state before each chunk, of what chunks add and which share of it they keep."""
    torch = import_torch()
    state = torch.zeros_like(added[:, 0])
    states = []
    for own, share in zip(added.unbind(1), kept, strict=True):
        states.append(state)
        state = share * state + own
    return torch.stack(states, 1)


def _split(values: Tensor, chunk: int) -> Tensor:
    """Return ``(sequences, chunks, chunk, size)``, with zeros after the end."""
    missing = -values.shape[1] % chunk
    if missing:
        values = import_torch().nn.functional.pad(values, (0, 0, 0, missing))
    return values.unflatten(1, (-1, chunk))

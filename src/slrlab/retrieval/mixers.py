"""Mixers: how a position reads earlier ones. Only this differs between the compared models.

A mixer gets projections of the same shape and returns what each question reads. Its output is
normalised and gated outside, for all mixers alike. Independent of tasks and training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slrlab import _checks
from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.scans import decayed_scan, gated_scan

Tensor = Any
SLOPES = ("lightning", "fla")


@dataclass(frozen=True)
class Mixer:
    """A way to mix tokens.

    ``mix(x, positions, parameters)`` returns ``(sequences, questions, width)`` from the normalised
    tokens ``(sequences, length, width)``. ``own`` are the shapes of parameters beside the matrices
    ``query``, ``key`` and ``value``, each with the number that it has before training.
    """

    name: str
    mix: Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]
    own: dict[str, tuple[str, float]]

    @property
    def attends(self) -> bool:
        """Whether it has scores of pairs of tokens, as `scores` returns them."""
        return self.name in MAPS


def make_mixer(name: str, *, slope: str = "lightning") -> Mixer:
    """Return a mixer: one of `MIXERS`, or any attention map of the atlas that `MAPS` lists.

    ``slope`` is the decay of ``tnl``, see `tnl_log_decay`.

    Raises
    ------
    ValueError
        If the name or the slope is unknown.

    Examples
    --------
    >>> make_mixer("hgrn2").own
    {'forget': ('width', 3.0)}
    """
    _checks.choice(name, "mixer", (*RECURRENT, *MAPS))
    log_decay = tnl_log_decay(slope)
    if name in MAPS:
        start = MAPS[name].start
        own = {} if start is None else {"scalar": ("one", start)}
        return Mixer(name, lambda x, at, p: _attend(name, x, at, p), own)
    if name == "tnl":
        return Mixer(name, lambda x, at, p: _kernel(x, at, p, log_decay), {})
    return RECURRENT[name]


def tnl_log_decay(
    slope: str = "lightning", *, head: int = 0, heads: int = 1, layer: int = 0, layers: int = 1
) -> float:
    """Return the logarithm of the decay of TNL (Qin et al. 2024, arXiv 2405.17381).

    Two published forms differ: ``lightning`` is ``−2^{−8(h+1)/H} (1 − l/(n − 1) + 1e−5)``, where a
    single layer has ``l/(n − 1) = 0``; ``fla`` is ``−(8h/H)(1 − l/n)``, whose first head never
    decays.

    Examples
    --------
    >>> print(f"{tnl_log_decay():.6f} {tnl_log_decay('fla', head=1, heads=2):.1f}")
    -0.003906 -4.0
    """
    _checks.choice(slope, "slope", SLOPES)
    if slope == "fla":
        return -(8.0 * head / heads) * (1.0 - layer / layers)
    rate: float = 2.0 ** (-8.0 * (head + 1) / heads)
    return -rate * (1.0 - layer / max(layers - 1, 1) + 1e-5)


def scores(
    x: Tensor, positions: Tensor, parameters: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores of an attention, which of them are seen, and how many."""
    torch = import_torch()
    width = x.shape[-1]
    queries = at_positions(x, positions) @ parameters["query"]
    pair_scores = queries @ (x @ parameters["key"]).mT / math.sqrt(width)
    seen = torch.arange(x.shape[1]) <= positions[..., None]
    return pair_scores, seen, (positions + 1.0)[..., None]


def at_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors at some positions of each sequence."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))


def attention_weights(name: str, x: Tensor, positions: Tensor, p: dict[str, Tensor]) -> Tensor:
    """Return the weights of all tokens for the queries at some positions."""
    pair_scores, seen, count = scores(x, positions, p)
    return MAPS[name].weights(pair_scores, seen, count, p.get("scalar", 0.0))


def _attend(name: str, x: Tensor, positions: Tensor, p: dict[str, Tensor]) -> Tensor:
    return attention_weights(name, x, positions, p) @ (x @ p["value"])


def _projected(x: Tensor, p: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries and keys after SiLU, and values."""
    silu = import_torch().nn.functional.silu
    return silu(x @ p["query"]) / math.sqrt(x.shape[-1]), silu(x @ p["key"]), x @ p["value"]


def _kernel(x: Tensor, positions: Tensor, p: dict[str, Tensor], log_decay: float) -> Tensor:
    return at_positions(decayed_scan(*_projected(x, p), log_decay), positions)


def _cosformer2(x: Tensor, positions: Tensor, p: dict[str, Tensor]) -> Tensor:
    q, k, v = _projected(x, p)
    return at_positions(decayed_scan(cosine_features(q), cosine_features(k), v), positions)


def cosine_features(x: Tensor) -> Tensor:
    """Return features whose products are weighted by ``cos(θ_s (i − j))`` in half of the entries.

    The angles are ``θ_s = 10000^{−2s/d}``.
    """
    torch = import_torch()
    length, width = x.shape[1:]
    half = width // 2
    angles = 10000.0 ** (-2.0 * torch.arange(half, dtype=x.dtype) / width)
    turn = torch.arange(length, dtype=x.dtype)[:, None] * angles
    turned = x[..., :half]
    return torch.cat([turned * turn.cos(), turned * turn.sin(), x[..., half:]], -1)


def _hgrn2(x: Tensor, positions: Tensor, p: dict[str, Tensor]) -> Tensor:
    functional = import_torch().nn.functional
    queries = functional.silu(x @ p["query"]) / math.sqrt(x.shape[-1])
    raw = x @ p["key"] + p["forget"]
    # 1 − sigmoid(raw) and log sigmoid(raw), without rounding near 1
    read = gated_scan(queries, (-raw).sigmoid(), x @ p["value"], functional.logsigmoid(raw))
    return at_positions(read, positions)


RECURRENT: dict[str, Mixer] = {
    "silu-linear": Mixer("silu-linear", lambda x, at, p: _kernel(x, at, p, 0.0), {}),
    "tnl": Mixer("tnl", lambda x, at, p: _kernel(x, at, p, tnl_log_decay()), {}),
    "cosformer2": Mixer("cosformer2", _cosformer2, {}),
    "hgrn2": Mixer("hgrn2", _hgrn2, {"forget": ("width", 3.0)}),
}
MIXERS = ("softmax", *RECURRENT)
"""The models of figure 1: softmax attention, three kernel attentions, and a gated recurrence."""

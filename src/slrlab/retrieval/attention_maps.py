"""Attention maps of the atlas on scores in PyTorch: weights of the tokens that a query sees.

The names are those of `slrlab.model.activations`. A map has a learned bias where the atlas
optimises one, so that both compare the same families. Independent of where the scores come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slrlab.retrieval.extra import import_torch

Tensor = Any
_TINY = 1e-6  # least denominator, where all weights may vanish


@dataclass(frozen=True)
class AttentionMap:
    """Weights of scores.

    ``weights(scores, seen, count, scalar)`` takes scores with the keys on the last axis, which of
    them are seen, how many these are, and the learned number of the map. ``start`` is that number
    before training; None if there is none.
    """

    weights: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    start: float | None = None


def _normalised(positive: Tensor, seen: Tensor) -> Tensor:
    kept = positive * seen
    return kept / kept.sum(-1, keepdim=True).clamp(min=_TINY)


def _softmax(scores: Tensor, seen: Tensor, count: Tensor, scalar: Tensor) -> Tensor:
    return scores.masked_fill(~seen, -math.inf).softmax(-1)


def _with_sink(scores: Tensor, seen: Tensor, sink: Tensor) -> Tensor:
    """Return ``e^s / (e^sink + Σ e^s)``."""
    torch = import_torch()
    masked = scores.masked_fill(~seen, -math.inf)
    total = torch.logaddexp(masked.logsumexp(-1, keepdim=True), sink)
    return (masked - total).exp()


def _ssmax(scores: Tensor, seen: Tensor, count: Tensor, scalar: Tensor) -> Tensor:
    return _softmax(scalar * count.log() * scores, seen, count, scalar)


def _entmax15(scores: Tensor, seen: Tensor, count: Tensor, scalar: Tensor) -> Tensor:
    """Return ``max(s/2 − τ, 0)²`` with sum 1 (Peters et al. 2019, arXiv 1905.05702)."""
    torch = import_torch()
    halves = scores / 2.0
    halves = halves - halves.masked_fill(~seen, -math.inf).amax(-1, keepdim=True).detach()
    with torch.no_grad():
        # the support is a head of the sorted scores; tokens more than 1 below the largest are out
        ordered = halves.masked_fill(~seen, -2.0).sort(-1, descending=True).values
        sizes = torch.arange(1, ordered.shape[-1] + 1, dtype=scores.dtype)
        mean = ordered.cumsum(-1) / sizes
        squares = (ordered**2).cumsum(-1) - sizes * mean**2
        thresholds = mean - ((1.0 - squares) / sizes).clamp(min=0.0).sqrt()
        support = (thresholds <= ordered).sum(-1, keepdim=True)
        threshold = thresholds.gather(-1, support - 1)
        roots = (halves - threshold).clamp(min=0.0) * seen
        share = roots / roots.sum(-1, keepdim=True)
    # the derivative of the threshold is the share of each root
    moved = threshold + (share * (halves - halves.detach())).sum(-1, keepdim=True)
    return ((halves - moved).clamp(min=0.0) * seen) ** 2


def _elementwise(value: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def weights(scores: Tensor, seen: Tensor, count: Tensor, bias: Tensor) -> Tensor:
        return value(scores + bias) * seen

    return weights


def _ratio(value: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def weights(scores: Tensor, seen: Tensor, count: Tensor, bias: Tensor) -> Tensor:
        return _normalised(value(scores + bias), seen)

    return weights


def _softplus(scores: Tensor) -> Tensor:
    return import_torch().nn.functional.softplus(scores)


def _elu1(scores: Tensor) -> Tensor:
    # elu(x) + 1 loses the left tail to rounding; the exponential does not
    torch = import_torch()
    return torch.where(scores > 0.0, scores + 1.0, scores.clamp(max=0.0).exp())


MAPS: dict[str, AttentionMap] = {
    "softmax": AttentionMap(_softmax),
    "softmax-1": AttentionMap(lambda s, seen, count, _: _with_sink(s, seen, s.new_zeros(()))),
    "softmax-sink": AttentionMap(lambda s, seen, count, sink: _with_sink(s, seen, sink), 0.0),
    "ssmax": AttentionMap(_ssmax, 0.43),
    "sigmoid": AttentionMap(_elementwise(lambda s: s.sigmoid()), -3.0),
    "erf": AttentionMap(_elementwise(lambda s: 1.0 + s.erf()), -1.0),
    "linear": AttentionMap(_elementwise(lambda s: 1.0 + s)),
    "relu": AttentionMap(_elementwise(lambda s: s.relu()), 0.0),
    "relu2": AttentionMap(_elementwise(lambda s: s.relu() ** 2), 0.0),
    "relu-normalised": AttentionMap(_ratio(lambda s: s.relu()), 0.0),
    "relu2-normalised": AttentionMap(_ratio(lambda s: s.relu() ** 2), 0.0),
    "softplus": AttentionMap(_ratio(_softplus)),
    "softplus-biased": AttentionMap(_ratio(_softplus), 0.0),
    "elu1": AttentionMap(_ratio(_elu1)),
    "taylor2-normalised": AttentionMap(_ratio(lambda s: 1.0 + s + s**2 / 2.0)),
    "entmax15": AttentionMap(_entmax15),
}
"""Attention maps by their names in the atlas."""

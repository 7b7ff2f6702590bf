"""One small causal model; the mixers that are compared differ in nothing else.

A token is embedded; a causal convolution of three tokens is added, so that a position knows the
token before it; what the mixer reads is normalised, gated and added; the answer is the product with
the embeddings. There is no layer beside these. Parameters are one vector: training and checkpoints
need to know no more. Independent of how a model is trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.mixers import Mixer, at_positions, attention_weights, make_mixer, scores
from slrlab.retrieval.tasks import RetrievalTask

Tensor = Any
_KERNEL = 3
_EPSILON = 1e-6
_EMBEDDING = 0.5  # standard deviation of an entry before training


@dataclass(frozen=True)
class Model:
    """Sizes of a model.

    ``features`` and ``classes`` are those of the task. A model that reads ``tokens`` has one table
    of embeddings for inputs and answers. Without ``gated`` what the mixer reads is added as it is,
    neither normalised nor gated.
    """

    mixer: str = "softmax"
    width: int = 16
    features: int = 128
    classes: int = 128
    tokens: bool = True
    gated: bool = True
    slope: str = "lightning"

    @classmethod
    def of(cls, task: RetrievalTask, mixer: str = "softmax", width: int = 16) -> Model:
        """Return the model of a task.

        >>> from slrlab.retrieval.tasks import RecallTask
        >>> Model.of(RecallTask(), "tnl").parameters
        4160
        """
        return cls(mixer, width, task.features, task.classes, task.tokens)

    def __post_init__(self) -> None:
        make_mixer(self.mixer, slope=self.slope)
        _checks.integer(self.width, "width", low=2)

    @cached_property
    def _mixer(self) -> Mixer:
        return make_mixer(self.mixer, slope=self.slope)

    @property
    def attends(self) -> bool:
        """Whether it has scores of pairs of tokens, as `scores` returns them."""
        return self._mixer.attends

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters, in the order of the vector."""
        d = self.width
        square = dict.fromkeys(("query", "key", "value", "gate", "output"), (d, d))
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.features, d)}
        if not self.tokens:
            shapes["answers"] = (self.classes, d)
        shapes |= {"convolution": (_KERNEL * d, d)} | square
        shapes |= dict.fromkeys(("before_convolution", "before_mixer", "after_mixer", "last"), (d,))
        sizes = {"one": (1,), "width": (d,)}
        return shapes | {name: sizes[size] for name, (size, _) in self._mixer.own.items()}

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, seed: int) -> npt.NDArray[np.float32]:
        """Return the parameters before training."""
        rng = np.random.default_rng([seed, 0])
        parts = []
        for name, shape in self.shapes.items():
            if name in self._mixer.own:
                parts.append(np.full(math.prod(shape), self._mixer.own[name][1]))
            elif len(shape) == 1:
                parts.append(np.ones(shape))
            else:
                std = _EMBEDDING if name in ("embedding", "answers") else shape[0] ** -0.5
                parts.append(std * rng.standard_normal(math.prod(shape)))
        return np.concatenate(parts).astype(np.float32)

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the parts of the vector of parameters by their names."""
        parts = vector.split([math.prod(shape) for shape in self.shapes.values()])
        return {
            name: part.view(shape)
            for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)
        }

    def answers(self, vector: Tensor, inputs: Tensor, positions: Tensor) -> Tensor:
        """Return the logits ``(sequences, questions, classes)``."""
        p = self.named(vector)
        x, h = self._before_mixer(p, inputs)
        read = self._mixer.mix(h, positions, p)
        if self.gated:
            gate = at_positions(h, positions) @ p["gate"]
            read = _normal(read) * p["after_mixer"] * import_torch().nn.functional.silu(gate)
        x = at_positions(x, positions) + read @ p["output"]
        table = p["embedding"] if self.tokens else p["answers"]
        return (_normal(x) * p["last"]) @ table.mT

    def scores(self, vector: Tensor, inputs: Tensor, positions: Tensor) -> Tensor:
        """Return the scores that the attention map receives, nan where a token is not seen.

        Raises
        ------
        ValueError
            If the mixer has none.
        """
        p, h = self._attended(vector, inputs)
        pair_scores, seen, _ = scores(h, positions, p)
        return pair_scores.masked_fill(~seen, math.nan)

    def weights(self, vector: Tensor, inputs: Tensor, positions: Tensor) -> Tensor:
        """Return the weights of the tokens, 0 where a token is not seen.

        Raises
        ------
        ValueError
            If the mixer has none.
        """
        p, h = self._attended(vector, inputs)
        return attention_weights(self.mixer, h, positions, p)

    def _attended(self, vector: Tensor, inputs: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Return the parameters and what the attention receives."""
        if not self.attends:
            _checks.fail("mixer", "an attention, which has scores", self.mixer)
        p = self.named(vector)
        return p, self._before_mixer(p, inputs)[1]

    def _before_mixer(self, p: dict[str, Tensor], inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens after the convolution, and normalised."""
        torch = import_torch()
        lookup = torch.nn.functional.embedding
        x = lookup(inputs, p["embedding"]) if self.tokens else inputs @ p["embedding"]
        h = _normal(x) * p["before_convolution"]
        length = h.shape[1]
        padded = torch.nn.functional.pad(h, (0, 0, _KERNEL - 1, 0))
        shifted = [padded[:, _KERNEL - 1 - back :][:, :length] for back in range(_KERNEL)]
        x = x + torch.cat(shifted, -1) @ p["convolution"]
        return x, _normal(x) * p["before_mixer"]


def _normal(x: Tensor) -> Tensor:
    """Return vectors of mean square 1."""
    return x * ((x * x).mean(-1, keepdim=True) + _EPSILON).rsqrt()

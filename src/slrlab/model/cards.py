"""Cards of activations: formula, source, parameters and limits, for the atlas."""

from __future__ import annotations

from dataclasses import dataclass

from slrlab.model.activations import _A, register_activation


@dataclass(frozen=True)
class Card:
    """The entry of an activation in the atlas.

    Attributes
    ----------
    formula
        The weight of token ``l`` as a formula of the scores ``s``, in LaTeX.
    source
        Who published it, with the number in arXiv where there is one.
    note
        What is fixed, what is optimised, and how it differs from the published form.
    limits
        One token, ties, a zero denominator: what the weights are there.
    """

    formula: str
    source: str
    note: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Absent:
    """A published attention that is not a map from the scores of one query to weights."""

    name: str
    source: str
    reason: str


CARDS: dict[str, Card] = {}
ABSENT: list[Absent] = []


def enter(activation: _A, card: Card) -> _A:
    """Register an activation together with its card."""
    CARDS[activation.name] = card
    return register_activation(activation)

r"""Keys and values of fixed length, as in the training of Marion et al. (2024).

A descent on the sphere moves the directions of ``k`` and ``v`` alone. Independent of how a
path is followed.
"""

from __future__ import annotations

from dataclasses import dataclass

from slrlab import _checks


@dataclass(frozen=True)
class Sphere:
    """Keys of length ``λ = scale/(1 + decay·t)`` and values of length 1, in units of ``√D``.

    Parameters
    ----------
    scale
        ``λ > 0`` at time 0: the factor of the key scores inside the activation.
    decay
        Rate ``>= 0`` at which ``1/λ`` grows, per unit of time and in units of its start.

    Examples
    --------
    >>> Sphere(scale=1.0, decay=0.025).at(40.0)
    0.5
    """

    scale: float
    decay: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checks.positive(self.scale, "scale"))
        object.__setattr__(self, "decay", _checks.non_negative(self.decay, "decay"))

    def at(self, time: float) -> float:
        """Return the length of the keys at a time."""
        return self.scale / (1.0 + self.decay * time)

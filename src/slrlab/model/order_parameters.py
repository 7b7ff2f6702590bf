"""Order parameters of a predictor on the manifold M, where keys and values do not mix."""

from __future__ import annotations

from dataclasses import dataclass

from slrlab import _checks


@dataclass(frozen=True)
class OrderParameters:
    """Overlaps of ``(k, v)`` with the teacher on M (``m_kv = m_vk = q_kv = 0``).

    Parameters
    ----------
    m_k, m_v
        ``k·k*/D`` and ``v·v*/D``.
    R_k, R_v
        Squared norms ``q - m²`` of the parts orthogonal to the teacher, per dimension.

    Examples
    --------
    >>> OrderParameters(m_k=1.0, m_v=0.5, R_k=0.2).q_k
    1.2
    """

    m_k: float
    m_v: float
    R_k: float = 0.0
    R_v: float = 0.0

    def __post_init__(self) -> None:
        for name in ("m_k", "m_v"):
            object.__setattr__(self, name, _checks.finite(getattr(self, name), name))
        for name in ("R_k", "R_v"):
            object.__setattr__(self, name, _checks.non_negative(getattr(self, name), name))

    @property
    def q_k(self) -> float:
        """``k·k/D``."""
        return self.m_k**2 + self.R_k

    @property
    def q_v(self) -> float:
        """``v·v/D``."""
        return self.m_v**2 + self.R_v

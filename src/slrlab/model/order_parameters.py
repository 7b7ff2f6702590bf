"""Order parameters of a predictor, on the manifold M (keys and values do not mix) and off it."""

from __future__ import annotations

import math
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Result, plain
from slrlab._types import FloatArray


class SquaredNorms:
    """Squared norms of vectors on M that are known by overlaps and residual norms."""

    m_k: float
    m_v: float
    R_k: float
    R_v: float

    @property
    def q_k(self) -> float:
        """``k·k/D``."""
        return self.m_k**2 + self.R_k

    @property
    def q_v(self) -> float:
        """``v·v/D``."""
        return self.m_v**2 + self.R_v


@dataclass(frozen=True)
class OrderParameters(SquaredNorms):
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


@dataclass(frozen=True)
class FullOrderParameters:
    """All overlaps of ``(k, v)`` with the teachers and with each other, on M or off it.

    Per dimension: ``m_kk = k·k*/D``, ``m_kv = k·v*/D``, ``m_vk = v·k*/D``, ``m_vv = v·v*/D``,
    ``q_kk = k·k/D``, ``q_kv = k·v/D``, ``q_vv = v·v/D``.
    """

    m_kk: float
    m_kv: float
    m_vk: float
    m_vv: float
    q_kk: float
    q_kv: float
    q_vv: float

    @classmethod
    def of(
        cls, k: FloatArray, v: FloatArray, key_teacher: FloatArray, value_teacher: FloatArray
    ) -> FullOrderParameters:
        """Measure the overlaps of given vectors.

        >>> import numpy as np
        >>> FullOrderParameters.of(*np.eye(4)[[0, 1, 0, 1]] * 2).m_kk
        1.0
        """
        pairs = (
            (k, key_teacher),
            (k, value_teacher),
            (v, key_teacher),
            (v, value_teacher),
            (k, k),
            (k, v),
            (v, v),
        )
        return cls(*(float(left @ right) / k.size for left, right in pairs))

    def to_dict(self) -> dict[str, Any]:
        """Return the overlaps by name, JSON-ready."""
        return {name: plain(value) for name, value in asdict(self).items()}

    @property
    def residuals(self) -> tuple[float, float, float]:
        """``R_kk, R_kv, R_vv``: what is left of ``q`` beyond the span of the teachers.

        >>> FullOrderParameters(1.0, 0.0, 0.5, 1.0, 2.0, 0.5, 1.5).residuals
        (1.0, 0.0, 0.25)
        """
        return (
            self.q_kk - self.m_kk**2 - self.m_kv**2,
            self.q_kv - self.m_kk * self.m_vk - self.m_kv * self.m_vv,
            self.q_vv - self.m_vk**2 - self.m_vv**2,
        )

    def vectors(self) -> tuple[FloatArray, FloatArray]:
        """Return ``k`` and ``v`` in R⁴ on the basis (k*, v*, two free directions).

        Any pair of vectors with these overlaps has the same risk and the same flow; this one puts
        what is free of ``k`` on the third direction.

        Raises
        ------
        ValueError
            If an overlap is not finite or no vectors have these overlaps.

        >>> FullOrderParameters(1.0, 0.0, 0.0, 1.0, 1.25, 0.5, 2.0).vectors()[1].tolist()
        [0.0, 1.0, 1.0, 0.0]
        """
        given = np.array(astuple(self), dtype=float)
        if not np.isfinite(given).all():
            raise ValueError(f"order must hold finite numbers, got {self}")
        R_kk, R_kv, R_vv = self.residuals
        slack = 1e-12 * (1.0 + float(np.abs(given).max()) ** 2)
        if min(R_kk, R_vv) < -slack or R_kv**2 > max(R_kk, 0.0) * max(R_vv, 0.0) + slack:
            raise ValueError(
                f"order must have residuals R_kk, R_kv, R_vv of a covariance, got {self.residuals}"
            )
        first = math.sqrt(max(R_kk, 0.0))
        along = R_kv / first if first > 0.0 else 0.0
        across = math.sqrt(max(R_vv - along**2, 0.0))
        k, v = (self.m_kk, self.m_kv, first, 0.0), (self.m_vk, self.m_vv, along, across)
        return np.array(k), np.array(v)

    @property
    def on_manifold(self) -> OrderParameters:
        """The part on M: cross overlaps dropped, residual norms kept."""
        return OrderParameters(
            m_k=self.m_kk,
            m_v=self.m_vv,
            R_k=max(0.0, self.q_kk - self.m_kk**2),
            R_v=max(0.0, self.q_vv - self.m_vv**2),
        )


OVERLAPS = tuple(item.name for item in fields(FullOrderParameters))


@dataclass(frozen=True)
class OverlapPath(Result):
    """Base of results with overlaps and bias along a path: arrays with one entry for each time."""

    times: FloatArray
    m_kk: FloatArray
    m_kv: FloatArray
    m_vk: FloatArray
    m_vv: FloatArray
    q_kk: FloatArray
    q_kv: FloatArray
    q_vv: FloatArray
    bias: FloatArray

    def overlaps(self, index: int = -1) -> FullOrderParameters:
        """Return the order parameters at one of the times, by default the last."""
        return FullOrderParameters(*(float(getattr(self, name)[index]) for name in OVERLAPS))

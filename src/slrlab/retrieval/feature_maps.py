r"""Feature maps: attention weights of a query over stored keys as normalised inner products.

A feature map :math:`\phi` of dimension ``m`` gives key ``j`` the weight ``φ(q)·φ(k_j) / Σ_i
φ(q)·φ(k_i)``. Softmax has no finite dimension. Independent of how a model is trained.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks

ACCEPTED = "softmax, elu+1, dpfp-NU or favor-M, such as dpfp-1 and favor-64"
_PATTERN = re.compile(r"(softmax|elu\+1|(?:dpfp|favor)-([1-9]\d{0,3}))")
_KINDS = ("softmax", "elu+1", "dpfp", "favor")  # names in the order of the codes of the kernel


@dataclass(frozen=True)
class FeatureMap:
    r"""A way to turn keys and queries into attention weights.

    Attributes
    ----------
    name
        ``softmax``; ``elu+1`` (Katharopoulos 2020); ``dpfp-NU``, products of rectified
        coordinates with their ``NU`` neighbours (Schlag 2021); ``favor-M``, ``M`` random
        projections (Choromanski 2020) that are drawn again at each call.
    number
        ``NU`` or ``M``; 0 if the name has none.
    """

    name: str
    number: int = 0

    @classmethod
    def of(cls, name: Any) -> FeatureMap:
        """Return the map of a name.

        Raises
        ------
        ValueError
            If the name is unknown.

        Examples
        --------
        >>> FeatureMap.of("dpfp-1").dimension(64), FeatureMap.of("favor-64").dimension(64)
        (128.0, 128.0)
        """
        read = _PATTERN.fullmatch(name) if isinstance(name, str) else None
        if read is None:
            _checks.fail("feature_map", ACCEPTED, name)
        return cls(name, int(read[2] or 0))

    @property
    def code(self) -> int:
        """Number of its kind in the kernel."""
        return _KINDS.index(self.name.partition("-")[0])

    @property
    def is_softmax(self) -> bool:
        """Whether it is softmax, which no finite feature map equals."""
        return self.name == "softmax"

    @property
    def is_random(self) -> bool:
        """Whether it draws random projections."""
        return self.code == 3

    def dimension(self, key_size: int) -> float:
        """Return the number ``m`` of features; infinite for softmax.

        A random projection gives two features, of either sign.
        """
        return (math.inf, key_size, 2.0 * key_size * self.number, 2.0 * self.number)[self.code]

    def directions(self, key_size: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Draw the random projections, a row each; no row for a map without any.

        They are orthogonal in groups of ``key_size``, and as long as Gaussian vectors.
        """
        groups = [np.zeros((0, key_size))]
        for first in range(0, self.number if self.is_random else 0, key_size):
            normals = rng.standard_normal((key_size, key_size))
            rows = np.linalg.qr(normals)[0].T * np.linalg.norm(normals, axis=1)[:, None]
            groups.append(rows[: self.number - first])
        return np.concatenate(groups).astype(np.float32)

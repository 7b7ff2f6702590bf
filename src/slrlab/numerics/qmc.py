"""Randomised quasi-Monte Carlo: independent scrambles of a Sobol sequence, as normals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import special

from slrlab._types import FloatArray


def normal_replicates(
    dimension: int, log2_size: int, replicates: int, seed: int | tuple[int, ...] = 0
) -> Iterator[FloatArray]:
    """Yield ``replicates`` independent arrays ``(2**log2_size, dimension)`` of normals.

    Each is an unbiased sample; the variance over replicates gives the error bar.
    """
    from scipy.stats import qmc

    for stream in np.random.SeedSequence(seed).spawn(replicates):
        engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(stream))
        uniform = engine.random_base2(log2_size)
        yield np.asarray(special.ndtri(np.clip(uniform, 1e-16, 1.0 - 1e-16)))

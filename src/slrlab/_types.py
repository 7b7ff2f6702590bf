"""Types that every layer uses: arrays of floats, and the callback that reports progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

Report: TypeAlias = Callable[[int, int, str], None]
"""Called as ``report(done, total, label)`` while a computation runs."""

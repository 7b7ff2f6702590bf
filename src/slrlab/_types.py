"""Types that every layer uses: arrays, the callback that reports progress, tables and pictures.

Those of pandas and matplotlib are given as text, so that no module imports these for a type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import pandas as pd

FloatArray: TypeAlias = npt.NDArray[np.float64]

Report: TypeAlias = Callable[[int, int, str], None]
"""Called as ``report(done, total, label)`` while a computation runs."""

Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"
DataFrame: TypeAlias = "pd.DataFrame"

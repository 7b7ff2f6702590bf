"""Lines of equal risk or hit rate, from a table: where a demand is just met.

`slrlab.require` computes each point of such a line; here a table is interpolated, for a picture
that follows a demand at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from slrlab import _checks
from slrlab._types import FloatArray

QUANTITIES = ("risk", "hit_rate")


def iso_lines(
    frame: pd.DataFrame, *, along: str, by: Sequence[str], quantity: str, level: float
) -> pd.DataFrame:
    """Return the least value of column ``along`` at which a demand is met, for each group.

    Between the rows of a group the logarithm of the quantity is interpolated in that of ``along``,
    by monotone cubic polynomials. Groups that do not meet the demand in their range, or meet it
    at its lower end already, are left out.

    Parameters
    ----------
    frame
        A table with the columns ``along``, ``by`` and ``quantity``.
    along, by
        The column that is solved for, and those that tell the groups apart.
    quantity, level
        ``risk``, at most ``level``, or ``hit_rate``, at least ``level``.

    Raises
    ------
    ValueError
        If the quantity is not known.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"name": "a", "signal": [1.0, 2.0, 4.0], "risk": [0.8, 0.4, 0.2]})
    >>> line = iso_lines(table, along="signal", by=["name"], quantity="risk", level=0.5)
    >>> line.round(6).values.tolist()
    [['a', 1.6]]
    """
    falling = _checks.choice(quantity, "quantity", QUANTITIES) == "risk"
    rows = []
    known = frame[np.isfinite(frame[along]) & (frame[along] > 0.0) & (frame[quantity] > 0.0)]
    for key, group in known.groupby(list(by), sort=False):
        part = group.sort_values(along).drop_duplicates(along)
        excess = np.log(part[quantity].to_numpy(float) / level) * (1.0 if falling else -1.0)
        least = _first_root(np.log(part[along].to_numpy(float)), excess)
        if math.isfinite(least):
            rows.append(dict(zip(by, key, strict=True)) | {along: math.exp(least)})
    return pd.DataFrame(rows, columns=[*by, along])


def _first_root(x: FloatArray, excess: FloatArray) -> float:
    """Return where an interpolated function first becomes negative, nan if it does not."""
    met = np.flatnonzero(excess <= 0.0)
    if met.size == 0 or met[0] == 0 or x.size < 2:
        return math.nan
    last = int(met[0])
    curve = PchipInterpolator(x, excess)
    return float(brentq(lambda at: float(curve(at)), x[last - 1], x[last], xtol=1e-12))

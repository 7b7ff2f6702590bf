"""Length transfer of every activation of the atlas, with infinite data."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.activations import Kind, portable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.experiments.transfer import RULES, length_transfer
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.tasks import SpikedSLR

_KEPT = ["fit", "use", "rule", "factor", "risk", "error", "refitted_risk", "bayes_risk"]
_KEPT += ["loss", "refitted_loss", "m_k", "m_v", "bias", "status", "note"]
_Item = tuple[Kind, float, int, tuple[int, ...]]


def atlas_transfer(
    activations: Sequence[Kind] | None = None,
    *,
    signal: float = 9.0,
    fit: int = 10,
    use: Sequence[int] = (2, 100, 1000),
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each activation, length of use and rule, on spiked-SLR.

    Parameters
    ----------
    signal
        Signal of the task.
    fit, use
        Length of the fit, and lengths of use, as for `slrlab.length_transfer`.
    activations, workers, report
        As for `slrlab.experiments.atlas.panel.atlas`.

    Raises
    ------
    ValueError
        If an activation is not known and cannot be read.
    """
    kinds = list(ACTIVATIONS) if activations is None else list(activations)
    items = [(portable(kind, workers), signal, fit, tuple(use)) for kind in kinds]
    label = "transfer of the atlas"
    parts = parallel_map(_frame, items, label=label, report=report, workers=workers)
    return pd.concat(parts, ignore_index=True)


def _frame(item: _Item) -> pd.DataFrame:
    """Return the rows of one activation."""
    kind, signal, fit, use = item
    activation = make_activation(kind)
    table = length_transfer(SpikedSLR(signal, fit), kind, fit=fit, use=use, rule=RULES).to_frame()
    frame = table[_KEPT]
    frame.insert(0, "activation", activation.name)
    frame.insert(1, "family", activation.family)
    return frame

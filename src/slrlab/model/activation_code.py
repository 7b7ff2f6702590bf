"""Activations as the compiled kernels see them: a few numbers and, for a user's map, a table.

Shipped maps have closed forms inside the kernel. Any other scalar map is tabulated with its two
derivatives and interpolated to about 1e-12, so that a new activation compiles nothing. Importing
this module compiles nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray
from slrlab.model import activations
from slrlab.model.activations import Activation, Elementwise, Normalised, Projection

ELEMENTWISE, NORMALISED, PROJECTION = range(3)
EXPONENTIAL, LINEAR, SHIFTED_ERF, SOFTPLUS, TABULATED = range(5)

_EDGE, _STEP = 40.0, 1.0 / 128.0
_KNOWN = {
    activations.SOFTMAX.phi: EXPONENTIAL,
    activations.LINEAR.phi: LINEAR,
    activations.ERF.phi: SHIFTED_ERF,
    activations.SOFTPLUS.phi: SOFTPLUS,
}


@dataclass(frozen=True)
class ActivationCode:
    """``numbers`` are family, kind, sink, power, first node and step; ``table`` has φ, φ', φ''."""

    numbers: tuple[int, int, float, float, float, float]
    table: FloatArray


def activation_code(activation: Activation) -> ActivationCode:
    """Return the code of an activation; its bias is left to the fields.

    Raises
    ------
    TypeError
        If the activation belongs to no known family.
    ValueError
        If its map is not finite on the range of the table.
    """
    empty = np.zeros((2, 3))
    if isinstance(activation, Projection):
        return ActivationCode((PROJECTION, EXPONENTIAL, 0.0, activation.power, 0.0, 1.0), empty)
    if not isinstance(activation, Elementwise | Normalised):
        raise TypeError(
            "activation must be Elementwise, Normalised or Projection, "
            f"got {type(activation).__name__}"
        )
    family = ELEMENTWISE if isinstance(activation, Elementwise) else NORMALISED
    sink = activation.sink if isinstance(activation, Normalised) else 0.0
    kind = _KNOWN.get(activation.phi, TABULATED)
    if kind != TABULATED and not (kind == EXPONENTIAL and family == ELEMENTWISE):
        return ActivationCode((family, kind, sink, 1.0, 0.0, 1.0), empty)
    nodes = np.arange(-_EDGE, _EDGE + _STEP / 2.0, _STEP)
    phi = activation.phi
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        columns = [
            np.broadcast_to(f(nodes), nodes.shape) for f in (phi.value, phi.first, phi.second)
        ]
    table = np.ascontiguousarray(np.stack(columns, axis=1), dtype=float)
    if not np.isfinite(table).all():
        raise ValueError(
            f"activation {activation.name} must be finite with two derivatives for scores in "
            f"[-{_EDGE:g}, {_EDGE:g}], got inf or nan"
        )
    return ActivationCode((family, TABULATED, sink, 1.0, -_EDGE, _STEP), table)

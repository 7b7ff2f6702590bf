"""Activations as the compiled kernels see them: a few numbers and, for other maps, tables.

Shipped maps have closed forms inside the kernel. Any other scalar map is tabulated with its two
derivatives and interpolated to about 1e-12, so that a new activation compiles nothing. A kink is
rounded, that of a projection too: the kernels see the map averaged over scores shifted by a
triangular law on one cell of the table to either side, ``h = 1/128``. At a kink where the slope
jumps by ``J`` this adds ``Jh/6``, at distance ``h`` it adds nothing, and averages over scores
change by ``Jh²/12`` times their density. The threshold of normmax moves by less than ``h²``
wherever the scores are. Importing this module compiles nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slrlab._types import FloatArray
from slrlab.model import activations, families
from slrlab.model.activations import Activation, Elementwise, Normalised, Projection, ScalarMap

ELEMENTWISE, NORMALISED, PROJECTION, RATIO, ORDERED, REWEIGHTED, NORMMAX = range(7)
EXPONENTIAL, LINEAR, SHIFTED_ERF, SOFTPLUS, TABULATED = range(5)

_EDGE, _STEP = 40.0, 1.0 / 128.0
_SIDE = 1e-7  # distance from a bend at which the map has its one-sided derivatives
_KNOWN = {
    activations.SOFTMAX.phi: EXPONENTIAL,
    activations.LINEAR.phi: LINEAR,
    activations.ERF.phi: SHIFTED_ERF,
    activations.SOFTPLUS.phi: SOFTPLUS,
}
ActivationNumbers = tuple[int, int, float, float, float, float]


@dataclass(frozen=True)
class ActivationCode:
    """``numbers`` are family, kind, sink, power, first node and step; ``table`` has φ, φ', φ''.

    The power is the exponent of a projection, of normmax or of the sum below a ratio, whose table
    has ``γ, γ', γ''`` in further columns. For an activation that depends on the order of the tokens
    it is the location of token 0, which is 0 if they are in order. The sink of a projection is its
    budget. The step of a projection or of normmax is the half-width of its rounded kinks, 0 if it
    has none.

    Row ``L`` of ``scales`` belongs to sequences of length ``L``: their scores are multiplied by its
    first number, the second is added to the bias, the third multiplies the weights. It has no rows
    if the activation does not see the length.
    """

    numbers: ActivationNumbers
    table: FloatArray
    scales: FloatArray

    @property
    def kinked(self) -> bool:
        """Whether a slope of the weights may jump, or turns within a cell of the table."""
        return self.numbers[0] in (PROJECTION, NORMMAX) or self._turns

    @property
    def rounded(self) -> bool:
        """Whether there is a kink, which is rounded: 1.5-entmax has none."""
        if self.numbers[0] in (PROJECTION, NORMMAX):
            return self.numbers[-1] > 0.0
        return self._turns

    @property
    def _turns(self) -> bool:
        """Whether the slope of a tabulated map turns within a cell."""
        slopes = self.table[:, 1::3]
        moves = np.abs(np.diff(slopes, axis=0))
        return bool((moves > 0.2 * (1.0 + np.abs(slopes[1:]))).any())

    def scale(self, length: int) -> tuple[float, float, float]:
        """Return the factor of the scores, the shift of the bias and the factor of the weights."""
        score, shift, factor = self.scales[length] if self.scales.size else (1.0, 0.0, 1.0)
        return float(score), float(shift), float(factor)

    def locations(self, length: int) -> Iterator[ActivationNumbers]:
        """Yield the numbers for each location of token 0: one if order does not matter."""
        family, kind, sink, power, *rest = self.numbers
        for location in range(length) if family in (ORDERED, REWEIGHTED) else (power,):
            yield (family, kind, sink, float(location), rest[0], rest[1])


def activation_code(activation: Activation, longest: int = 0) -> ActivationCode:
    """Return the code of an activation for lengths up to ``longest``; the bias is left out.

    Raises
    ------
    TypeError
        If the activation belongs to no known family.
    ValueError
        If its map is not finite on the range of the table, or the weights jump.
    """
    if isinstance(activation, families.LengthScaled):
        base, lengths = activation_code(activation.base, longest), range(1, longest + 1)
        scales = np.array([(1.0, 0.0, 1.0), *(_scale(activation, base, n) for n in lengths)])
        return replace(base, scales=scales)
    empty, unscaled = np.zeros((2, 3)), np.zeros((0, 3))
    if isinstance(activation, Projection):
        budget, power = float(activation.budget), activation.power
        width = _STEP if power == 1.0 or budget > 1.0 else 0.0
        return ActivationCode((PROJECTION, EXPONENTIAL, budget, power, 0.0, width), empty, unscaled)
    if isinstance(activation, families.NormMax):
        width = _STEP if activation.power == 2.0 else 0.0
        numbers = (NORMMAX, EXPONENTIAL, 0.0, activation.power, 0.0, width)
        return ActivationCode(numbers, empty, unscaled)
    if isinstance(activation, families.StickBreaking):
        return ActivationCode((ORDERED, EXPONENTIAL, 0.0, 0.0, 0.0, 1.0), empty, unscaled)
    if isinstance(activation, families.CosineReweighted):
        numbers = (REWEIGHTED, TABULATED, 0.0, 0.0, -_EDGE, _STEP)
        return ActivationCode(numbers, _tabulate(activation.phi, activation.name), unscaled)
    if isinstance(activation, families.Ratio):
        maps = (activation.phi, activation.gauge)
        table = np.concatenate([_tabulate(phi, activation.name) for phi in maps], axis=1)
        numbers = (RATIO, TABULATED, 0.0, activation.exponent, -_EDGE, _STEP)
        return ActivationCode(numbers, table, unscaled)
    if isinstance(activation, families.TopK):
        raise ValueError(
            f"activation must be continuous to be trained, got {activation.name}: its weights jump "
            "where a token enters the largest, which no gradient sees"
        )
    if not isinstance(activation, Elementwise | Normalised):
        raise TypeError(
            "activation must be Elementwise, Normalised, Projection or of a family of "
            f"slrlab.model.families, got {type(activation).__name__}"
        )
    family = ELEMENTWISE if isinstance(activation, Elementwise) else NORMALISED
    sink = activation.sink if isinstance(activation, Normalised) else 0.0
    kind = _KNOWN.get(activation.phi, TABULATED)
    if kind != TABULATED and not (kind == EXPONENTIAL and family == ELEMENTWISE):
        return ActivationCode((family, kind, sink, 1.0, 0.0, 1.0), empty, unscaled)
    numbers = (family, TABULATED, sink, 1.0, -_EDGE, _STEP)
    return ActivationCode(numbers, _tabulate(activation.phi, activation.name), unscaled)


def _scale(
    activation: families.LengthScaled, base: ActivationCode, length: int
) -> tuple[float, float, float]:
    score, shift, factor = base.scale(length)
    score, factor = score * activation.score(length), factor * activation.factor(length)
    return score, shift + activation.shift(length), factor


def _tabulate(phi: ScalarMap, name: str) -> FloatArray:
    """Return a map and two derivatives at the nodes, kinks rounded."""
    nodes = np.arange(-_EDGE, _EDGE + _STEP / 2.0, _STEP)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        columns = [
            np.broadcast_to(f(nodes), nodes.shape) for f in (phi.value, phi.first, phi.second)
        ]
        table = np.ascontiguousarray(np.stack(columns, axis=1), dtype=float)
        for bend in phi.bends:
            _round(table, nodes, phi, bend)
    if not np.isfinite(table).all():
        raise ValueError(
            f"activation {name} must be finite with two derivatives for scores in "
            f"[-{_EDGE:g}, {_EDGE:g}], got inf or nan"
        )
    return table


def _round(table: FloatArray, nodes: FloatArray, phi: ScalarMap, bend: float) -> None:
    """Average the map over a triangular law of half-width ``h`` near a bend, in its table.

    The hinge ``J max(x, 0)`` becomes ``J(h − |x|)³/6h²`` more; between nodes at multiples of ``h``
    from the bend it is a cubic, which the interpolation reproduces.
    """
    sides = bend + np.array([-_SIDE, _SIDE])
    slopes, curves = phi.first(sides), phi.second(sides)
    jump = slopes[1] - slopes[0] - _SIDE * curves.sum()
    jump = jump if abs(jump) > 10.0 * _SIDE else 0.0  # rounding; a zero of the map stays a zero
    x = nodes - bend
    left = np.maximum(_STEP - np.abs(x), 0.0) / _STEP
    at = np.abs(x) < 1e-9  # there the derivatives of the map are those of one side only
    table[at, 1:] = slopes.mean(), curves.mean()
    table[:, 0] += jump * _STEP * left**3 / 6.0
    table[:, 1] -= jump * np.where(at, 0.0, np.sign(x)) * left**2 / 2.0
    table[:, 2] += jump * left / _STEP

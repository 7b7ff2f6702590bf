"""Activations written as text: ``"elementwise: 1 + tanh(x)"``, ``"normalised: 1 + x**2"``.

The text becomes a `Formula`. What integration rules must know of the map is found from its parts:
kinks, poles, and features much narrower than 1, which nodes placed blindly would miss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.formulas import Formula
from slrlab.model.scalar_map import ScalarMap
from slrlab.numerics.second_order import Expansion

_REACH = 100.0  # scores up to which kinks and narrow features are looked for
_PROBE = np.linspace(-8.0, 8.0, 257)  # scores at which a map must be finite
_SHARP = 0.5  # width of a smooth feature below which rules must refine there
_MOST_BENDS = 200
_KINKED = ("abs", "relu", "sqrt", "log", "root", "/")  # singular where their argument is 0
_RELATIVE = ("log", "root", "sqrt", "/")  # these depend on relative changes of their argument only
_POLE = 900.0  # growth between 1e-6 and 1e-12 from a point: squares have no finite mean from 1e3
_SHOWN = 60  # characters of a text in a message


def map_from_expression(text: str, *, known: Iterable[str]) -> tuple[str, ScalarMap, bool]:
    """Read ``FAMILY: EXPRESSION`` (family elementwise unless given).

    Returns the family, the map, and whether it is ``e^x`` times a constant. ``known`` are the names
    that a message lists.
    """
    head, colon, body = text.partition(":")
    family = head.strip() if colon else "elementwise"
    shown = _shown(text)
    try:
        if family not in ("elementwise", "normalised"):
            raise ValueError(f"the family {_shown(family)} is not elementwise or normalised")
        formula = Formula.read(body if colon else text)
        phi = _scalar_map(formula)
    except ValueError as error:
        raise ValueError(
            "activation must be a name or an expression in x such as 'elementwise: 1 + tanh(x)' "
            f"or 'normalised: log(1 + exp(x))', got {shown} ({error}); "
            f"the names are {', '.join(known)}"
        ) from None
    if family == "elementwise":
        return family, phi, False
    probe = phi.value(_PROBE)
    if not ((probe >= 0.0).all() and (probe > 0.0).any()):
        raise ValueError(
            f"activation must be non-negative to be normalised, got {shown} "
            f"(value {probe.min():.4g} on [-8, 8])"
        )
    return family, phi, _is_exponential(formula)


def _shown(text: str) -> str:
    """Return a text for a message of one line."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def _is_exponential(formula: Formula) -> bool:
    """Return whether log φ is x plus a constant: it is softmax then."""
    slope = formula.log(np.linspace(-700.0, 700.0, 1401)).gradient[:, 0]
    return bool((np.abs(slope - 1.0) < 1e-14).all())


@cache  # the same formula is the same map, so that activations can be compared
def _scalar_map(formula: Formula) -> ScalarMap:
    """Return the map of a formula.

    Raises
    ------
    ValueError
        If it is not finite, constant, or too rough for any rule.
    """
    with np.errstate(all="ignore"):
        _check_values(formula)
        bends, width = _features(formula)
    return ScalarMap(
        _evaluated(formula, 0),
        _evaluated(formula, 1),
        _evaluated(formula, 2),
        lambda x: _on_array(x, lambda flat: formula.log(flat, derivatives=False).value),
        bends=bends,
        width=width,
    )


def _on_array(x: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a function of one axis at an array of any shape."""
    flat = np.asarray(x, dtype=float).ravel()
    with np.errstate(all="ignore"):
        return np.asarray(function(flat).reshape(np.shape(x)))


def _evaluated(formula: Formula, order: int) -> Callable[[FloatArray], FloatArray]:
    """Return the formula or a derivative; where it is ∞/∞, from its logarithm."""

    def function(x: FloatArray) -> FloatArray:
        direct = formula(x, derivatives=order > 0)
        parts = [direct.value]
        if direct.hessian is not None:
            parts += [direct.gradient[:, 0], direct.hessian[:, 0, 0]]
        broken = np.isnan(parts[order])
        if broken.any():
            log = formula.log(x[broken])
            assert log.hessian is not None
            slope, curve = log.gradient[:, 0], log.hessian[:, 0, 0]
            factor = (np.ones_like(slope), slope, curve + slope**2)[order]
            parts[order] = parts[order].copy()
            parts[order][broken] = np.exp(log.value) * factor
        return np.asarray(parts[order])

    return lambda x: _on_array(x, function)


def _check_values(formula: Formula) -> None:
    """Raise a `ValueError` for a map without values, or with one only."""
    value = _evaluated(formula, 0)
    far = np.concatenate([_PROBE, np.linspace(-_REACH, _REACH, 2001)])
    near, all_ = value(_PROBE), value(far)
    for points, bad in ((_PROBE, ~np.isfinite(near)), (far, np.isnan(all_))):
        if bad.any():
            raise ValueError(f"it is not a finite number at x = {points[bad.argmax()]:g}")
    fine = value(np.concatenate([_grid(), far]))
    largest = max(np.abs(_evaluated(term, 0)(_PROBE)).max() for term in formula.terms())
    if not np.ptp(fine[np.isfinite(fine)]) > 1e-13 * largest:
        raise ValueError("it does not depend on x")


def _grid() -> FloatArray:
    """Return points where changes of sign are looked for, dense at 0."""
    powers = np.geomspace(1e-9, _REACH, 600)
    # no node where a simple root is likely
    return np.sort(np.concatenate([-powers, powers, np.linspace(-_REACH, _REACH, 4001) + 1e-7]))


def _features(formula: Formula) -> tuple[tuple[float, ...], float]:
    """Return the points where rules must refine, and the least width of a smooth feature.

    A map ``f(g(x))`` changes fastest where ``g`` is 0 or has an extremum, and a narrow peak of the
    whole is an extremum of its logarithm. In these places the width of the feature is known.
    """
    bends: set[float] = set()
    width = _short_keys(formula)
    parts: list[tuple[str, Callable[..., Expansion]]] = [*dict.fromkeys(formula.arguments())]
    for kind, function in [*parts, ("peak", formula.log)]:
        extrema, roots = _zeros(function, 1), _zeros(function, 0)
        if kind == "peak":
            roots = roots[:0]
        at_roots, at_extrema = function(roots), function(extrema)
        assert at_extrema.hessian is not None
        size = np.abs(at_extrema.value) if kind in _RELATIVE else np.ones(extrema.size)
        widths = np.sqrt(2.0 * size / np.abs(at_extrema.hessian[:, 0, 0]))
        if kind == "/":
            _check_poles(formula, np.append(roots, extrema[~(widths > 1e-6)]))
        points = extrema
        if kind in _KINKED:
            bends.update(roots.tolist())
        else:
            points = np.append(points, roots)
            widths = np.append(widths, 1.0 / np.abs(at_roots.gradient[:, 0]))
        sharp = widths < _SHARP
        bends.update(points[sharp].tolist())
        width = min(width, float(widths[sharp].min(initial=1.0)))
        if len(bends) > _MOST_BENDS:
            raise ValueError(f"it has more than {_MOST_BENDS} kinks or narrow features")
    return tuple(sorted(bends)), max(width, 1e-12)


def _short_keys(formula: Formula) -> float:
    """Return the width that scores near 0 see: the inverse slope of the logarithm, at most 1."""
    centre = formula(np.zeros(1))
    slope = float(centre.gradient[0, 0] / centre.value[0])
    if not math.isfinite(slope):  # too small for a double
        slope = float(formula.log(np.zeros(1)).gradient[0, 0])
    return min(1.0, 1.0 / abs(slope)) if math.isfinite(slope) and slope else 1.0


def _zeros(function: Callable[..., Expansion], order: int) -> FloatArray:
    """Return the points where a function, or its slope for ``order`` 1, changes sign."""

    def values(x: FloatArray) -> FloatArray:
        jet = function(x, derivatives=order > 0)
        return jet.gradient[:, 0] if order else jet.value

    return _roots(values)


def _check_poles(formula: Formula, points: FloatArray) -> None:
    """Raise a `ValueError` where the square of a map has no finite mean around a point."""
    value = _evaluated(formula, 0)
    for side in (-1.0, 1.0):
        near, far = (
            np.abs(value(points + side * away * np.maximum(1.0, np.abs(points))))
            for away in (1e-12, 1e-6)
        )
        pole = ~(near < _POLE * far + 1e-300)
        if pole.any():
            raise ValueError(f"it is infinite at x = {points[pole.argmax()]:.6g}")


def _roots(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the points where a function changes sign, within the scores that matter."""
    x = _grid()
    signs = np.sign(function(x))
    change = np.flatnonzero(signs[:-1] * signs[1:] < 0.0)
    if change.size > 20 * _MOST_BENDS:
        raise ValueError("it oscillates too fast")
    low, high, sign = x[change], x[change + 1], signs[change]
    for _ in range(70):
        middle = 0.5 * (low + high)
        same = np.sign(function(middle)) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    roots = 0.5 * (low + high)
    # a root within rounding of a short number is replaced by it
    return np.where(np.abs(roots - roots.round(9)) < 1e-11, roots.round(9), roots)

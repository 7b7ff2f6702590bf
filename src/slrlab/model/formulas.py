"""Formulas in one variable ``x``: values, two derivatives, and logarithms that do not overflow.

A formula is read through Python's own syntax tree; only arithmetic, numbers, ``x``, ``pi`` and the
functions below pass. It is then computed node by node, and never run as code. Independent of what
the formulas are for.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.numerics.second_order import Expansion

Function: TypeAlias = Callable[[FloatArray], FloatArray]

_LONGEST, _MOST, _DEEPEST = 1000, 200, 40  # characters, operations, and how they are nested
_LARGEST_POWER = 64.0
_BELL = 2.0 / math.sqrt(math.pi)


def log_softplus(v: FloatArray) -> FloatArray:
    """Return ``log log(1 + e^v)``."""
    # below -30 softplus(v) is e^v to rounding, and log(e^v) must not pass through underflow
    return np.where(v < -30.0, v, np.log(np.logaddexp(0.0, np.maximum(v, -30.0))))


def _softplus_rate(v: FloatArray) -> FloatArray:
    return np.asarray(np.exp(special.log_expit(v) - log_softplus(v)))


# name: the function and its two derivatives
_TABLE: dict[str, tuple[Function, Function, Function]] = {
    "exp": (np.exp, np.exp, np.exp),
    "log": (np.log, lambda v: 1.0 / v, lambda v: -1.0 / v**2),
    "sqrt": (np.sqrt, lambda v: 0.5 / np.sqrt(v), lambda v: -0.25 / np.sqrt(v) ** 3),
    "tanh": (
        np.tanh,
        lambda v: 1.0 - np.tanh(v) ** 2,
        lambda v: -2.0 * np.tanh(v) * (1.0 - np.tanh(v) ** 2),
    ),
    "erf": (
        special.erf,
        lambda v: _BELL * np.exp(-(v**2)),
        lambda v: -2.0 * _BELL * v * np.exp(-(v**2)),
    ),
    "sin": (np.sin, np.cos, lambda v: -np.sin(v)),
    "cos": (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)),
    "abs": (np.abs, np.sign, np.zeros_like),
    "relu": (lambda v: np.maximum(v, 0.0), lambda v: np.where(v > 0.0, 1.0, 0.0), np.zeros_like),
    "sigmoid": (
        special.expit,
        lambda v: special.expit(v) * special.expit(-v),
        lambda v: special.expit(v) * special.expit(-v) * (special.expit(-v) - special.expit(v)),
    ),
    "softplus": (
        lambda v: np.logaddexp(0.0, v),
        special.expit,
        lambda v: special.expit(v) * special.expit(-v),
    ),
}
# the logarithms of some of them
_LOGARITHMS: dict[str, tuple[Function, Function, Function]] = {
    "sigmoid": (
        special.log_expit,
        lambda v: special.expit(-v),
        lambda v: -special.expit(v) * special.expit(-v),
    ),
    "softplus": (
        log_softplus,
        _softplus_rate,
        lambda v: _softplus_rate(v) * (special.expit(-v) - _softplus_rate(v)),
    ),
}
FUNCTIONS = tuple(_TABLE)


@dataclass(frozen=True)
class Formula:
    """A formula, or a part of one; two are equal if they are written in the same way."""

    text: str

    @classmethod
    def read(cls, text: str) -> Formula:
        """Return the formula of a text.

        Raises
        ------
        ValueError
            If the text is anything else, with the reason in a few words.
        """
        if not (text.isascii() and text.isprintable()):
            raise ValueError("only printable ASCII characters are read")
        if len(text) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise ValueError("not an expression") from None
        if sum(1 for _ in _nodes(tree)) > _MOST:
            raise ValueError(f"it has more than {_MOST} operations")
        _check(tree, _DEEPEST)
        return cls(ast.unparse(tree))

    @cached_property
    def tree(self) -> ast.expr:
        """The syntax tree."""
        return ast.parse(self.text, mode="eval").body

    def __call__(self, x: FloatArray, *, derivatives: bool = True) -> Expansion:
        """Return values, and if asked for derivatives, at points along one axis."""
        with np.errstate(all="ignore"):
            return _value(self.tree, _variable(x, derivatives))

    def log(self, x: FloatArray, *, derivatives: bool = True) -> Expansion:
        """Return the logarithm, nan where the formula is negative."""
        with np.errstate(all="ignore"):
            return _log(self.tree, _variable(x, derivatives))

    def terms(self) -> list[Formula]:
        """Return the formula and, if it is a sum or a difference, its two terms."""
        tree = self.tree
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
            return [self, Formula(ast.unparse(tree.left)), Formula(ast.unparse(tree.right))]
        return [self]

    def arguments(self) -> Iterator[tuple[str, Formula]]:
        """Return the arguments of all functions; of a quotient or a power, with the sign."""
        for node in _nodes(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node.func.id, Formula(ast.unparse(node.args[0]))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                yield "/", Formula(ast.unparse(node.right))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                power = _number(node.right)
                if power < 0.0 or power % 1.0:
                    yield "/" if power < 0.0 else "root", Formula(ast.unparse(node.left))


def _nodes(tree: ast.expr) -> Iterator[ast.expr]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.expr))


def _check(node: ast.expr, depth: int) -> None:
    """Raise a `ValueError` for invalid formulas."""
    if depth == 0:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        _finite(_number(node))
    elif isinstance(node, ast.Name):
        if node.id not in ("x", "pi"):
            raise ValueError(f"the name {node.id} is not x")
    elif isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow
    ):
        _check(node.left, depth - 1)
        _check(node.right, depth - 1)
        if isinstance(node.op, ast.Pow):
            if _has_x(node.right):
                raise ValueError("the power is not a number")
            if abs(_finite(_number(node.right))) > _LARGEST_POWER:
                raise ValueError(f"the power is larger than {_LARGEST_POWER:g}")
        if not _has_x(node):
            _finite(_number(node))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        _check(node.operand, depth - 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id not in _TABLE or len(node.args) != 1 or node.keywords:
            raise ValueError(f"the functions are {', '.join(FUNCTIONS)}, of one argument")
        _check(node.args[0], depth - 1)
        if not _has_x(node):
            _finite(_number(node))
    else:
        raise ValueError("only + - * / **, numbers, x and functions of x are read")


def _has_x(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "x" for part in _nodes(node))


def _number(node: ast.expr) -> float:
    """Return the value of a part without ``x``."""
    with np.errstate(all="ignore"):
        return float(_value(node, _variable(np.zeros(1), False)).value[0])


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("a constant is not a finite number")
    return value


def _variable(x: FloatArray, derivatives: bool) -> Expansion:
    if derivatives:
        return Expansion.coordinate(x[:, None], 0)
    return Expansion(x, np.empty((x.size, 0)), None)  # no variable to differentiate by


def _applied(v: Expansion, functions: tuple[Function, Function, Function]) -> Expansion:
    value, slope, curve = functions
    if v.hessian is None:
        return Expansion(value(v.value), v.gradient, None)
    return v.through(value(v.value), slope(v.value), curve(v.value))


def _power(v: Expansion, n: float) -> Expansion:
    def derivative(order: int) -> Function:
        factor = math.prod(n - i for i in range(order))
        return lambda x: factor * x ** (n - order) if factor else np.zeros_like(x)

    return _applied(v, (derivative(0), derivative(1), derivative(2)))


def _value(node: ast.expr, x: Expansion) -> Expansion:
    """Return a part of a formula at ``x``."""
    if isinstance(node, ast.Name) and node.id == "x":
        return x
    if isinstance(node, ast.Constant | ast.Name):
        given = math.pi if isinstance(node, ast.Name) else node.value
        return 0.0 * x + _constant(x, float(given) if abs(given) < 1e308 else math.inf)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, x)
        return -1.0 * inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Call):
        name = node.func.id  # type: ignore[attr-defined]
        if name == "log":
            return _log(node.args[0], x)
        return _applied(_value(node.args[0], x), _TABLE[name])
    assert isinstance(node, ast.BinOp)
    left = _value(node.left, x)
    if isinstance(node.op, ast.Pow):
        return _power(left, _number(node.right))
    right = _value(node.right, x)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    return left * (right if isinstance(node.op, ast.Mult) else _power(right, -1.0))


def _constant(x: Expansion, value: float) -> Expansion:
    hessian = None if x.hessian is None else np.zeros_like(x.hessian)
    return Expansion(np.full_like(x.value, value), np.zeros_like(x.gradient), hessian)


def _log(node: ast.expr, x: Expansion) -> Expansion:
    """Return the logarithm of a part, by the rules for logarithms where its terms are positive."""
    ruled = _log_by_rule(node, x)
    if ruled is not None and not np.isnan(ruled.value).any():
        return ruled
    plain = _applied(_value(node, x), _TABLE["log"])
    return plain if ruled is None else _joined(~np.isnan(ruled.value), ruled, plain)


def _log_by_rule(node: ast.expr, x: Expansion) -> Expansion | None:
    if isinstance(node, ast.Call):
        name = node.func.id  # type: ignore[attr-defined]
        if name == "exp":
            return _value(node.args[0], x)
        if name in _LOGARITHMS:
            return _applied(_value(node.args[0], x), _LOGARITHMS[name])
        return 0.5 * _log(node.args[0], x) if name == "sqrt" else None
    if not isinstance(node, ast.BinOp) or isinstance(node.op, ast.Sub):
        return None
    left = _log(node.left, x)
    if isinstance(node.op, ast.Pow):
        return _number(node.right) * left
    right = _log(node.right, x)
    if isinstance(node.op, ast.Mult):
        return left + right
    if isinstance(node.op, ast.Div):
        return left - right
    return _log_sum(left, right)


def _log_sum(a: Expansion, b: Expansion) -> Expansion:
    """Return ``log(e^a + e^b)``."""
    value = np.logaddexp(a.value, b.value)
    if a.hessian is None or b.hessian is None:
        return Expansion(value, a.gradient, None)
    p, q = (np.nan_to_num(np.exp(one.value - value))[:, None] for one in (a, b))
    slope = p * np.nan_to_num(a.gradient) + q * np.nan_to_num(b.gradient)
    curve = (p * q * np.nan_to_num(a.gradient - b.gradient) ** 2)[..., None]
    hessian = p[..., None] * np.nan_to_num(a.hessian) + q[..., None] * np.nan_to_num(b.hessian)
    return Expansion(value, slope, hessian + curve)


def _joined(first: np.typing.NDArray[np.bool_], a: Expansion, b: Expansion) -> Expansion:
    """Return one expansion where ``first`` holds, the other elsewhere."""
    hessian = None
    if a.hessian is not None and b.hessian is not None:
        hessian = np.where(first[:, None, None], a.hessian, b.hessian)
    gradient = np.where(first[:, None], a.gradient, b.gradient)
    return Expansion(np.where(first, a.value, b.value), gradient, hessian)

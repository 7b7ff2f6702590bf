"""Activations written as text: ``"elementwise: 1 + tanh(x)"``, ``"normalised: 1 + x**2"``.

The text is read through Python's own syntax tree and only arithmetic, numbers, ``x`` and the
functions below pass; nothing is ever evaluated as Python code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, Map, Normalised, ScalarMap

FUNCTIONS = (
    "exp",
    "log",
    "sqrt",
    "tanh",
    "erf",
    "sin",
    "cos",
    "abs",
    "relu",
    "sigmoid",
    "softplus",
)
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def activation_from_expression(text: str, *, known: Iterable[str]) -> Activation:
    """Build an activation from ``FAMILY: EXPRESSION`` (family elementwise unless given)."""
    head, colon, body = text.partition(":")
    family = head.strip() if colon else "elementwise"
    source = (body if colon else text).strip()
    try:
        if family not in ("elementwise", "normalised"):
            raise ValueError(f"the family {family} is not elementwise or normalised")
        expression, x = _to_sympy(source)
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError) as error:
        why = "not an expression" if isinstance(error, SyntaxError) else str(error)
        raise ValueError(
            f"activation must be one of {', '.join(known)}, or an expression in x such as "
            f"'elementwise: 1 + tanh(x)' or 'normalised: log(1 + exp(x))', got {text!r} ({why})"
        ) from None
    phi = _scalar_map(expression, x)
    if family == "elementwise":
        return Elementwise(text, phi=phi)
    probe = phi.value(np.linspace(-8.0, 8.0, 257))
    if not (np.isfinite(probe).all() and (probe >= 0.0).all() and (probe > 0.0).any()):
        raise ValueError(
            f"activation must be non-negative to be normalised, got {text} "
            f"(value {np.nanmin(probe):.4g} on [-8, 8])"
        )
    # log φ = x + constant is softmax: the weights do not see the constant
    pure = expression.has(x) and _is_exponential(expression, x)
    return Normalised(text, phi=phi, exponential="everywhere" if pure else "nowhere")


def _to_sympy(source: str) -> tuple[Any, Any]:
    import sympy

    x = sympy.Symbol("x", real=True)
    table: dict[str, Callable[[Any], Any]] = {
        name: getattr(sympy, name) for name in FUNCTIONS if hasattr(sympy, name) and name != "abs"
    }
    table["abs"] = sympy.Abs
    table["relu"] = lambda s: sympy.Max(s, 0)
    table["sigmoid"] = lambda s: 1 / (1 + sympy.exp(-s))
    table["softplus"] = lambda s: sympy.log(1 + sympy.exp(s))

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return sympy.nsimplify(node.value, rational=True)
        if isinstance(node, ast.Name):
            if node.id == "x":
                return x
            if node.id == "pi":
                return sympy.pi
            raise ValueError(f"the name {node.id} is not x")
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = build(node.left), build(node.right)
            if isinstance(node.op, ast.Pow) and abs(float(right)) > 64:
                raise ValueError("the power is larger than 64")
            return _BINARY[type(node.op)](left, right)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return _UNARY[type(node.op)](build(node.operand))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in table or len(node.args) != 1 or node.keywords:
                raise ValueError(f"the functions are {', '.join(FUNCTIONS)}, of one argument")
            return table[node.func.id](build(node.args[0]))
        raise ValueError("only + - * / **, numbers, x and functions of x are read")

    expression = build(ast.parse(source, mode="eval").body)
    if expression.has(sympy.zoo, sympy.nan) or x not in expression.free_symbols:
        raise ValueError("it does not depend on x")
    return expression, x


def _is_exponential(expression: Any, x: Any) -> bool:
    import sympy

    slope = sympy.diff(expression, x) / expression
    return bool(sympy.simplify(slope - 1) == 0)


@cache  # the same expression is the same map, so that activations can be compared
def _scalar_map(expression: Any, x: Any) -> ScalarMap:
    import sympy

    def compile_(formula: Any) -> Map:
        raw = sympy.lambdify(x, formula, modules=["numpy", "scipy"])

        def evaluate(scores: FloatArray) -> FloatArray:
            with np.errstate(all="ignore"):
                return np.broadcast_to(np.asarray(raw(scores), dtype=float), np.shape(scores))

        return evaluate

    first = sympy.diff(expression, x)
    # SymPy knows log(exp(x)) = x for real x, which keeps exponentials out of overflow
    log = sympy.log(expression)
    return ScalarMap(
        compile_(expression), compile_(first), compile_(sympy.diff(first, x)), compile_(log)
    )

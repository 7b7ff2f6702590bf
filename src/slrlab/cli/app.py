"""The app, and what turns a function into one of its commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, get_type_hints

import typer

from slrlab.cli.console import Output
from slrlab.cli.options import (
    HeadsAttention,
    Sizes,
    read_activation,
    read_heads_task,
    read_task,
)
from slrlab.cli.table_output import TableOutput
from slrlab.model.activations import Activation
from slrlab.model.heads import MultiHeadSLR
from slrlab.model.tasks import Task

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Why softmax attention retrieves better than its rivals: the theory of single-location "
    "regression, computed.",
)
# a parameter of one of these types stands for the options of the function that makes it
GROUPS: Mapping[Any, Callable[..., Any]] = {
    Task: read_task,
    Activation: read_activation,
    Sizes: Sizes,
    MultiHeadSLR: read_heads_task,
    HeadsAttention: HeadsAttention,
    Output: Output,
    TableOutput: TableOutput,
}
F = TypeVar("F", bound=Callable[..., bool | None])


def command(*sources: Callable[..., Any], **defaults: Any) -> Callable[[F], F]:
    """Register a function as the command of its name; exit code 1 if it returns False.

    A parameter without a default takes the one in ``defaults``, or that of the parameter of its
    name in ``sources``, the functions that the options go to.
    """
    for source in sources:
        parameters = inspect.signature(source).parameters
        defaults = {name: one.default for name, one in parameters.items()} | defaults

    def register(function: F) -> F:
        groups = {
            one.name: GROUPS[one.annotation]
            for one in _parameters(function)
            if one.annotation in GROUPS
        }
        members = {name: _parameters(make) for name, make in groups.items()}
        options = [
            option.replace(default=defaults.get(option.name, option.empty))
            if option.default is option.empty
            else option
            for one in _parameters(function)
            for option in members.get(one.name, [one])
        ]

        @wraps(function)
        def run(**given: Any) -> None:
            for name, make in groups.items():
                given[name] = make(**{one.name: given.pop(one.name) for one in members[name]})
            if function(**given) is False:
                raise typer.Exit(1)

        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        app.command()(run)
        return function

    return register


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function as keywords, with their types."""
    types = get_type_hints(function, include_extras=True)
    return [
        one.replace(kind=one.KEYWORD_ONLY, annotation=types.get(name, one.annotation))
        for name, one in inspect.signature(function).parameters.items()
    ]

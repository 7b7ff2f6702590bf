"""Options shared by the commands: text in, model objects out.

Every option arrives as text and is read here, so that a wrong value gets the library's own one-line
message and nothing else.
"""

from __future__ import annotations

from typing import Annotated

import typer

from slrlab import _checks
from slrlab.model.activations import Activation, make_activation
from slrlab.model.tasks import Task, make_task

TaskOption = Annotated[
    str, typer.Option("--task", help="Task: spiked or max.", metavar="NAME", show_default=True)
]
SignalOption = Annotated[
    str, typer.Option("--signal", help="Signal strength ν ≥ 0; inf is allowed.", metavar="ν")
]
LengthOption = Annotated[
    str,
    typer.Option(
        "--length",
        help="Sequence length: 3 | 1,2,3 | 1:0.2,2:0.3,3:0.5 | uniform(1,10) | poisson(5) | "
        "geometric(20).",
        metavar="L",
    ),
]
NoiseOption = Annotated[
    str, typer.Option("--noise", help="Standard deviation Δ of the label noise.", metavar="Δ")
]
ActivationOption = Annotated[
    str,
    typer.Option(
        "--activation",
        help="softmax, linear, erf, softplus, sparsemax, entmax15, or an expression such as "
        "'elementwise: 1 + tanh(x)' or 'normalised: log(1 + exp(x))'.",
        metavar="NAME_or_EXPR",
    ),
]
BiasOption = Annotated[
    str | None,
    typer.Option(
        "--bias", help="Bias added to the scores: a number, or optimal.", metavar="c|optimal"
    ),
]
AlphaOption = Annotated[
    str | None, typer.Option("--alpha", help="Samples per dimension, N/D > 0.", metavar="α")
]
RidgeKOption = Annotated[
    str | None, typer.Option("--ridge-k", help="Ridge of the keys, ≥ 0.", metavar="r")
]
RidgeVOption = Annotated[
    str | None, typer.Option("--ridge-v", help="Ridge of the values, ≥ 0.", metavar="r")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")
]

_DIGITS = 4000  # of the whole numbers that Python reads


def number(text: str | None, name: str, accepted: str) -> float:
    """Read a number, with the library's wording if it is none."""
    if text is None:
        raise ValueError(f"{name} must be {accepted}, got nothing")
    try:
        return float(text)
    except ValueError:
        _checks.fail(name, accepted, text)


def whole(text: str, name: str, low: int = 0) -> int:
    """Read a whole number from ``low`` on, with the library's wording if it is none."""
    accepted = f"a whole number >= {low}"
    if text.strip().lstrip("+-").isdecimal() and len(text) < _DIGITS:
        return _checks.integer(int(text), name, low=low)  # a float would round beyond 2⁵³
    value = number(text, name, accepted)
    if not value.is_integer():
        _checks.fail(name, accepted, text)
    return _checks.integer(value, name, low=low)


def read_task(task: str, signal: str, length: str, noise: str) -> Task:
    """Build the task that the common options describe."""
    return make_task(
        task,
        signal=number(signal, "signal", "a number >= 0 or inf"),
        length=length,
        noise=number(noise, "noise", "a finite number >= 0"),
    )


def read_activation(name: str, bias: str | None) -> Activation:
    """Build the activation that the options describe."""
    if bias is None or bias == "optimal":
        return make_activation(name, bias=bias)
    return make_activation(name, bias=number(bias, "bias", "a finite number or optimal"))

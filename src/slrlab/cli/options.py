"""Options that several commands share, and the parsers that Typer reads them with.

A parser refuses a text as the library would: "must be WHAT, got TEXT". The name of the option is
put before it where the error is printed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from slrlab import _checks
from slrlab.model.activations import ACTIVATIONS, Activation, make_activation
from slrlab.model.heads import BAYES_SOFTMAX, MultiHeadSLR, heads_attention
from slrlab.model.lengths import LengthLaw
from slrlab.model.task_registry import TASKS, make_task
from slrlab.model.tasks import Task

Parser = Callable[[Any], Any]
_DIGITS = 4000  # largest number of digits that Python reads as a whole number
_DIM = 1000


def parser(read: Parser) -> Parser:
    """Return a parser for Typer, with the wording of the error that ``read`` raises."""

    def parse(text: Any) -> Any:
        try:
            return read(text)
        except (ValueError, TypeError) as error:
            raise typer.BadParameter(f"must {str(error).partition(' must ')[2]}") from None

    return parse


def number(accepted: str) -> Parser:
    """Return the parser of a number; the library checks its range."""

    def read(text: Any) -> float:
        try:
            return float(text)
        except ValueError:
            _checks.fail("number", accepted, text)

    return parser(read)


def whole(low: int | None = 0, high: int | None = None) -> Parser:
    """Return the parser of a whole number from ``low`` up to ``high``, if these are given."""
    accepted = "a whole number" if low is None else f"a whole number >= {low}"

    def read(text: Any) -> int:
        exact = str(text).strip().lstrip("+-").isdecimal() and len(str(text)) < _DIGITS
        value = int(text) if exact else number(accepted)(text)  # a float rounds beyond 2⁵³
        if value % 1 or (low is not None and value < low):
            _checks.fail("number", accepted, text)
        if high is not None and value > high:
            _checks.fail("number", f"a whole number <= {high}", text)
        return int(value)

    return parser(read)


def target(*kinds: str) -> Parser:
    """Return the parser of a file to write: in a folder that exists, with one of the endings."""
    accepted = f"a file that ends with {', '.join(kinds)} in a folder that exists"

    def read(text: Any) -> Path:
        path = Path(text)
        if not (path.parent.is_dir() and path.suffix in kinds):
            _checks.fail("file", accepted, str(path))
        return path

    return parser(read)


def listed(parse: Parser) -> Parser:
    """Return the parser of several values with commas between them, such as 2,10,100."""
    return lambda text: [parse(part) for part in str(text).split(",")]


def option(help: str, parser: Parser | None = None, metavar: str = "", *names: str) -> Any:  # noqa: A002
    """Return an option for ``Annotated``; its name is that of the parameter unless given."""
    return typer.Option(*names, help=help, parser=parser, metavar=metavar or None)


def flag(name: str, help: str) -> Any:  # noqa: A002
    """Return an option without a value."""
    return typer.Option(name, help=help)


def default(function: Callable[..., Any], name: str) -> Any:
    """Return the default of a function's argument."""
    return inspect.signature(function).parameters[name].default


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given: None leaves a function its own default."""
    return {name: value for name, value in options.items() if value is not None}


lengths = listed(whole(2))
"""Reads lengths of sequences, or dimensions."""
NUMBERS = listed(number("numbers"))
FINITE = number("a finite number")
POSITIVE, NOT_NEGATIVE = number("a finite number > 0"), number("a finite number >= 0")
TASK = option(f"Task: {', '.join(TASKS)}.", metavar="NAME")
SIGNAL = option("Signal strength ν ≥ 0; inf is allowed.", number("a number >= 0 or inf"), "ν")
LENGTH = option(
    "Sequence length: 3 | 1,2,3 | 1:0.2,2:0.3,3:0.5 | uniform(1,10) | poisson(5) | geometric(20).",
    parser(LengthLaw.of),
    "L",
)
NOISE = option("Standard deviation Δ of the label noise.", NOT_NEGATIVE, "Δ")
ACTIVATION = option(
    f"{', '.join(ACTIVATIONS)}, or an expression such as 'elementwise: 1 + tanh(x)' or "
    "'normalised: log(1 + exp(x))'.",
    metavar="NAME_or_EXPR",
)
ALPHA = option("Samples per dimension, N/D > 0.", POSITIVE, "α")
ANY_ALPHA = option(
    "Samples per dimension, N/D > 0; inf: infinite data.", number("a number > 0 or inf"), "α"
)
BEST_RIDGE = option("Ridge of the training; default: that of least test risk.", NOT_NEGATIVE, "r")
RISK_ERROR = option("Standard error of the risk after training to reach.", POSITIVE, "t")
PLOT = option("Draw it: .png, .pdf or .svg.", target(".png", ".pdf", ".svg"), "FILE")
RIDGE_K = option("Ridge of the keys, ≥ 0.", NOT_NEGATIVE, "r")
RIDGE_V = option("Ridge of the values, ≥ 0.", NOT_NEGATIVE, "r")
SEED = option("Seed of what is drawn; several runs count up from it.", whole(), "n")
TOKEN_LAW = option(
    "Law of the entries of tokens: gaussian, rademacher, uniform, laplace or student(n); with "
    "+ar1(r) the coordinates are correlated, with +shared(r) the tokens of a sequence.",
    metavar="LAW",
)
TEST_SAMPLES = option("Fresh sequences that measure the risk.", whole(), "n")
WEIGHTS = flag(
    "--weights", "Also what the weights do: hit rate, mean weight, entropy and calibration."
)
OUT = option("Folder for the files.", Path, "DIR")
CSV = option("Write a CSV file.", target(".csv"), "FILE")
STORE = option("SQLite file of results.", Path, "FILE")
PROFILE = option("quick, full (the paper's size) or toy.", metavar="NAME")
RESULTS = Path("results")


def read_task(
    task: Annotated[str, TASK] = "spiked",
    signal: Annotated[float, SIGNAL] = 2.0,
    length: Annotated[Any, LENGTH] = 3,
    noise: Annotated[float, NOISE] = default(make_task, "noise"),
    **own: Any,
) -> Task:
    """Build the task that its options describe."""
    return make_task(task, signal=signal, length=length, noise=noise, **given(**own))


def _own_options() -> Iterator[inspect.Parameter]:
    """Yield an option for each parameter that only some tasks have, with the help of their class.

    The class checks its range.
    """
    shared = {one.name for one in fields(Task)}
    kinds: dict[str, list[type[Task]]] = {}
    types: dict[str, str] = {}
    for kind in TASKS.values():
        for one in (one for one in fields(kind) if one.name not in shared):
            kinds.setdefault(one.name, []).append(kind)
            types[one.name] = one.type if isinstance(one.type, str) else one.type.__name__
    readers = {"int": (whole(None), "n"), "float": (number("a number"), "x")}
    for name, having in kinds.items():
        text = " ".join(f"{_description(kind, name)} (Task {kind.name}.)" for kind in having)
        read, metavar = readers.get(types[name], (str, "TEXT"))
        annotation = Annotated[Any, option(text.strip(), read, metavar)]
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )


def _description(kind: type[Task], name: str) -> str:
    """Return what the documentation of a class says of a parameter, as one line."""
    entry = re.search(rf"^{name}\n((?: +\S.*\n?)+)", inspect.getdoc(kind) or "", re.M)
    return "" if entry is None else " ".join(entry[1].replace("`", "").split())


read_task.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*list(inspect.signature(read_task).parameters.values())[:-1], *_own_options()]
)


def _bias(text: str) -> float | str:
    return text if text == "optimal" else number("a finite number or optimal")(text)


def read_activation(
    activation: Annotated[str, ACTIVATION] = "softmax",
    bias: Annotated[
        Any, option("Bias added to the scores: a number, or optimal.", _bias, "c|optimal")
    ] = None,
) -> Activation:
    """Build the activation that its options describe."""
    return make_activation(activation, bias=bias)


def read_heads_task(
    signals: Annotated[
        Any,
        option("Signal ν of each direction, or one for all.", NUMBERS, "ν,ν,…"),
    ] = "6",
    directions: Annotated[
        int | None, option("Number of directions, if there is one signal.", whole(1), "K")
    ] = None,
    length: Annotated[Any, LENGTH] = 5,
    noise: Annotated[float, NOISE] = default(MultiHeadSLR, "noise"),
    probabilities: Annotated[
        Any,
        option("Probability of each direction; default: equal.", NUMBERS, "π,π,…"),
    ] = None,
) -> MultiHeadSLR:
    """Build the task of several heads that its options describe."""
    given = signals if len(signals) > 1 or directions is None else signals[0]
    return MultiHeadSLR(given, length, noise, probabilities=probabilities, directions=directions)


@dataclass(frozen=True)
class HeadsAttention:
    """The attention of several heads."""

    activation: Annotated[
        str, option(f"Attention of each head: as elsewhere, or {BAYES_SOFTMAX}.", metavar="NAME")
    ] = "softmax"
    bias: Annotated[
        Any, option("Bias added to the scores: a number, or optimal.", _bias, "c|optimal")
    ] = None

    @property
    def made(self) -> Activation | str:
        """The activation, or the name of the attention that all heads share."""
        return heads_attention(self.activation, bias=self.bias)


@dataclass(frozen=True)
class Sizes:
    """The dimension of a simulation, or several to extrapolate from."""

    dim: Annotated[
        int | None,
        option(f"Dimensions D; default {_DIM}. The paper's size is 10⁴/√α.", whole(2), "D"),
    ] = None
    dims: Annotated[
        Any,
        option(
            "Several dimensions, such as 250,1000: compare at each, and as D → ∞ by fitting a + "
            "b/D.",
            lengths,
            "D,D,…",
        ),
    ] = None

    def __post_init__(self) -> None:
        if None not in (self.dim, self.dims):
            raise ValueError(f"dim must not be given with --dims, got {self.dim}")

    @property
    def given(self) -> dict[str, Any]:
        """The argument of the function that simulates."""
        return {"dim": self.dim or _DIM} if self.dims is None else {"dims": self.dims}

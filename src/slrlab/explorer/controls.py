"""What a user can set, the same for the live explorer and for the address of a page.

A value is read from the text of an address. One that is wrong is replaced by the default, with a
message that says so. Independent of how anything is computed or drawn.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slrlab import _checks
from slrlab.experiments.atlas.activations import STANDARD
from slrlab.experiments.stored import SIGNALS
from slrlab.model.activations import make_activation
from slrlab.model.lengths import LengthLaw
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task

MOST_ACTIVATIONS = 6
LONGEST = 10**6
_MOST_LENGTHS = 1000  # different lengths of a law
_LARGEST_SIGNAL = 1e4
_SEPARATOR = ";"  # no expression has one
_ALWAYS = ("signal", "length")  # always in the address, since their defaults differ between views

TASKS = tuple(SIGNALS)  # those of the paper; other tasks have parameters of their own
X = ("signal", "length")
RIDGES = ("best", "given")
DEMANDS = ("risk", "hit_rate")
RANKINGS = ("panel", "setting")


@dataclass(frozen=True)
class Controls:
    """All that determines what the views show.

    Attributes
    ----------
    task, signal, length, noise, activations
        The setting that all views share; the length as text, a number or a law.
    x
        What the population view draws against: the signal or the length.
    seed
        Seed of the sequence of the retrieve view.
    ridge, ridge_k, ridge_v
        Whether training has its best ridges or the given ones.
    activation
        The activation whose landscape or weights are drawn.
    m_kk, m_kv
        Start of the gradient flow.
    ranking
        Whether the atlas ranks by its panel or by the setting.
    demand, target, exact
        What the plan asks for, and whether the fewest samples are computed exactly.
    """

    task: str = "spiked"
    signal: float = 4.0
    length: str = "10"
    noise: float = 0.0
    activations: tuple[str, ...] = STANDARD
    x: str = "signal"
    seed: int = 1
    ridge: str = "best"
    ridge_k: float = 0.5
    ridge_v: float = 0.5
    activation: str = "softmax"
    m_kk: float = 0.5
    m_kv: float = 1.5
    ranking: str = "panel"
    demand: str = "risk"
    target: float = 0.1
    exact: bool = False

    @property
    def law(self) -> LengthLaw:
        """The length of a sequence as a law."""
        return LengthLaw.of(self.length)

    @property
    def focus(self) -> str:
        """The activation that is drawn alone: the chosen one if it is among those compared."""
        return self.activation if self.activation in self.activations else self.activations[0]

    def words(self, *names: str) -> str:
        """Return the setting, with some of its other values.

        >>> Controls().words("seed")
        'spiked-SLR, signal ν = 4, length L = 10, noise Δ = 0, seed = 1'
        """
        labels = {"signal": "signal ν", "length": "length L", "noise": "noise Δ"}
        labels |= {name: name.replace("ridge_", "ridge of ") for name in names}
        shown = [f"{label} = {_as_text(getattr(self, name))}" for name, label in labels.items()]
        return ", ".join([f"{self.task}-SLR", *shown])

    def make_task(self, **changes: Any) -> Task:
        """Return the task, with another signal, length or noise if given."""
        given: dict[str, Any] = {"signal": self.signal, "length": self.length, "noise": self.noise}
        return make_task(self.task, **given | changes)

    def check(self) -> Controls:
        """Return the controls if they go together.

        Raises
        ------
        ValueError
            If a hit rate of 1 or more is asked for.
        """
        if self.demand == "hit_rate" and self.target >= 1.0:
            _checks.fail("target", "a number between 0 and 1 for a hit rate", f"{self.target:g}")
        return self

    def to_query(self) -> dict[str, str]:
        """Return signal, length and what differs from the defaults, as text for an address."""
        texts = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name in _ALWAYS:
                texts[field.name] = _as_text(value)
        return texts

    @classmethod
    def from_query(
        cls, query: Mapping[str, str], start: Controls | None = None
    ) -> tuple[Controls, list[str]]:
        """Return the controls of an address, and a message for each value that is not accepted.

        An address without any is that of ``start``.

        >>> Controls.from_query({"signal": "9", "length": "0"})[0].length
        '10'
        """
        if not query and start is not None:
            return start, []
        values: dict[str, Any] = {}
        messages: list[str] = []
        for name in _READERS:
            if name not in query:
                continue
            try:
                values[name] = read_control(name, query[name])
            except ValueError as error:
                messages.append(f"{error}; {name} is {_as_text(getattr(cls, name))} instead")
        try:
            return cls(**values).check(), messages
        except ValueError as error:
            del values["target"]
            messages.append(f"{error}; target is {cls.target:g} instead")
        return cls(**values), messages


def read_control(name: str, value: Any) -> Any:
    """Return a value of a control, from its text in an address or from a widget.

    Raises
    ------
    ValueError
        If it is not accepted.
    """
    try:
        return _READERS[name](_as_text(value))
    except (ValueError, TypeError) as error:
        raise ValueError(_short(str(error))) from None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return _SEPARATOR.join(value)
    short = isinstance(value, float) and float(f"{value:g}") == value
    return f"{value:g}" if short else str(value)


def _short(message: str) -> str:
    """Return a message without the long list of all activations."""
    return message.partition("; the names are ")[0]


def _number(name: str, **limits: Any) -> Callable[[Any], float]:
    """Return the reader of a number."""
    accepted = limits.pop("accepted")

    def read(text: Any) -> float:
        try:
            value = float(text)
        except ValueError:
            _checks.fail(name, accepted, text)
        return _checks.real(value, name, accepted=accepted, **limits)

    return read


def read_signal(text: Any) -> float:
    """Read a signal: a number up to 10,000, or inf."""
    accepted = "a number from 0 to 10000, or inf"
    value = _number("signal", accepted=accepted, low=0.0, finite=False)(text)
    if _LARGEST_SIGNAL < value < math.inf:
        _checks.fail("signal", accepted, text)
    return value


def read_length(text: Any) -> str:
    """Read a length or a law of lengths, and return its text."""
    law = LengthLaw.of(str(text))
    if law.longest > LONGEST:
        _checks.fail("length", f"at most {LONGEST}", text)
    if len(law.lengths) > _MOST_LENGTHS:
        _checks.fail("length", f"a law of at most {_MOST_LENGTHS} lengths", text)
    return str(law)


def read_activation(text: Any) -> str:
    """Read the name of an activation or an expression."""
    text = str(text).strip()
    if _SEPARATOR in text:
        _checks.fail("activation", f"an expression without {_SEPARATOR}", text)
    return make_activation(text).name


def read_activations(text: Any) -> tuple[str, ...]:
    """Read several activations, one to six."""
    if not str(text).strip():
        raise ValueError("choose at least one activation")
    names = tuple(dict.fromkeys(map(read_activation, str(text).split(_SEPARATOR))))
    if len(names) > MOST_ACTIVATIONS:
        _checks.fail("activations", f"at most {MOST_ACTIVATIONS}", len(names))
    return names


def _seed(text: Any) -> int:
    if not str(text).isdecimal() or len(str(text)) > 9:
        _checks.fail("seed", "a whole number from 0 to 999999999", text)
    return int(text)


def _choice(name: str, options: Any) -> Callable[[Any], str]:
    return lambda text: _checks.choice(text, name, options)


def _overlap(name: str) -> Callable[[Any], float]:
    return _number(name, accepted="a number from -10 to 10", low=-10.0, high=10.0)


def _ridge(name: str) -> Callable[[Any], float]:
    return _number(name, accepted="a number from 0 to 1000", low=0.0, high=1000.0)


_READERS: dict[str, Callable[[Any], Any]] = {
    "task": _choice("task", TASKS),
    "signal": read_signal,
    "length": read_length,
    "noise": _number("noise", accepted="a number from 0 to 10", low=0.0, high=10.0),
    "activations": read_activations,
    "x": _choice("x", X),
    "seed": _seed,
    "ridge": _choice("ridge", RIDGES),
    "ridge_k": _ridge("ridge_k"),
    "ridge_v": _ridge("ridge_v"),
    "activation": read_activation,
    "m_kk": _overlap("m_kk"),
    "m_kv": _overlap("m_kv"),
    "ranking": _choice("ranking", RANKINGS),
    "demand": _choice("demand", DEMANDS),
    "target": _number("target", accepted="a number > 0", low=0.0, open_low=True),
    "exact": lambda text: _checks.choice(text, "exact", ("yes", "no")) == "yes",
}

"""What a sweep can compute: one entry of `COMPUTATIONS` is all that a computation needs.

A computation takes plain settings (as a TOML file holds them) and returns a result; its settings,
the help of the command line, the documentation and the tests follow from its entry. Independent of
how points are scheduled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from slrlab import _checks
from slrlab._result import Result
from slrlab.model.activations import Activation, make_activation
from slrlab.model.heads import heads_attention
from slrlab.model.task_registry import TASKS, make_task
from slrlab.model.tasks import Task

Settings = Mapping[str, Any]
TASK: dict[str, Any] = {"task": "spiked", "signal": 2.0, "length": 3, "noise": 0.0}
ATTENTION: dict[str, Any] = {"activation": "softmax", "bias": None}
REQUIRED = inspect.Parameter.empty
_PLAIN = {"float", "int", "str"}
_RANGES: dict[str, Callable[[Any, str], float]] = {
    **dict.fromkeys(("alpha", "tolerance", "size", "time"), _checks.positive),
    **dict.fromkeys(("ridge_k", "ridge_v"), _checks.non_negative),
}


@dataclass(frozen=True)
class Computation:
    """A public function, named as ``module:function`` and imported when it is used.

    Its settings are the arguments of the function that are numbers or texts: those without a
    default must be given. A function of an activation takes ``activation`` and ``bias``; one with
    an argument ``seed`` gives a point for each seed.

    Parameters
    ----------
    function
        Takes a task, and returns a `Result`.
    about
        What the value is, for the documentation.
    value, error
        Fields of the result that a row shows; an empty name: none.
    example
        Settings of a point that takes seconds, for the tests.
    fixed
        Arguments that are not settings.
    memory
        Bytes that a point needs, as a function of its task and settings.
    attention
        Makes the activation from its name and bias.
    """

    function: str
    about: str
    value: str
    error: str = ""
    example: Settings = field(default_factory=dict)
    fixed: Settings = field(default_factory=dict)
    memory: Callable[[Task, Settings], int] = lambda task, settings: 0
    attention: Callable[..., Activation | str] = make_activation

    @property
    def takes_activation(self) -> bool:
        """Whether it takes an activation."""
        return "activation" in _parameters(self.function)

    @property
    def seeded(self) -> bool:
        """Whether it depends on a seed."""
        return "seed" in _parameters(self.function)

    @cached_property
    def own(self) -> dict[str, Any]:
        """Settings beside those of the task and the activation, with their defaults."""
        skipped = {"seed", *TASK, *ATTENTION, *self.fixed}
        return {
            name: argument.default
            for name, argument in _parameters(self.function).items()
            if name not in skipped and _PLAIN & _types(argument)
        }

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings with their defaults; `REQUIRED` for those that have none."""
        return TASK | (ATTENTION if self.takes_activation else {}) | self.own

    def complete(self, settings: Settings) -> dict[str, Any]:
        """Return the settings with defaults filled in, in one order: what a point is known by.

        Raises
        ------
        ValueError
            If a setting is unknown, missing or out of range.
        """
        known = self.settings | task_parameters(settings.get("task", TASK["task"]))
        for name in settings:
            _checks.choice(name, "setting", known)
        whole = known | dict(settings)
        for name, value in whole.items():
            if value is REQUIRED:
                raise ValueError(f"setting {name} must be given, got nothing")
        task = task_of(whole)
        whole |= task.parameters | {"length": str(task.length)}
        if self.takes_activation:
            self.attention(whole["activation"], bias=whole["bias"])
        arguments = _parameters(self.function)
        for name, value in whole.items():
            if name in self.own and "int" in _types(arguments[name]) and value is not None:
                whole[name] = _checks.integer(value, name, low=0)
                continue
            whole[name] = _floats(value)
            if name in _RANGES and value is not None:
                whole[name] = _RANGES[name](value, name)
        self.memory(task, whole)
        return whole

    def run(self, settings: Settings, seed: int) -> Result:
        """Compute one point."""
        given = {name: settings[name] for name in self.own} | dict(self.fixed)
        if self.takes_activation:
            given["activation"] = self.attention(settings["activation"], bias=settings["bias"])
        if self.seeded:
            given["seed"] = seed
        result: Result = _imported(self.function)(task_of(settings), **given)
        return result


def _floats(value: Any) -> Any:
    """Turn whole numbers into floats, in lists too: 1 and 1.0 are one setting."""
    if isinstance(value, list | tuple):
        return [_floats(item) for item in value]
    return float(value) if type(value) is int else value


def task_parameters(name: str) -> dict[str, Any]:
    """Return the parameters that a task has beside those of all tasks, with their defaults."""
    given = inspect.signature(TASKS[_checks.choice(name, "task", TASKS)]).parameters
    return {word: one.default for word, one in given.items() if word not in TASK}


def task_of(settings: Settings) -> Task:
    """Return the task that settings describe."""
    name = settings["task"]
    words = [word for word in TASK if word != "task"]
    return make_task(name, **{word: settings[word] for word in (*words, *task_parameters(name))})


def _imported(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    imported: Callable[..., Any] = getattr(import_module(module), name)
    return imported


@cache
def _parameters(function: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_imported(function)).parameters


def _types(argument: inspect.Parameter) -> set[str]:
    return set(str(argument.annotation).split(" | "))


def _simulated_bytes(task: Task, settings: Settings) -> int:
    from slrlab.simulation.training.erm import training_bytes

    dtype = settings.get("dtype", "float32")
    return training_bytes(task, settings["dim"], settings["alpha"], dtype)


def _labelled_bytes(task: Task, settings: Settings) -> int:
    """Return the memory of tokens in double precision, twice, and of the matrices of Newton."""
    tokens = _simulated_bytes(task, {**settings, "dtype": "float64"})
    return 2 * tokens + 32 * int(settings["dim"]) ** 2


_RIDGES = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}
_TESTED: dict[str, Any] = {"value": "test_risk", "error": "test_risk_error"}
_TRAINED = _TESTED | {
    "example": {**_RIDGES, "dim": 20, "test_samples": 100},
    "fixed": {"seeds": 1},
}
COMPUTATIONS: dict[str, Computation] = {
    "population": Computation(
        "slrlab.theory.population.minimal:minimal_risk", "minimal risk", "risk", "error"
    ),
    "bayes": Computation(
        "slrlab.theory.bayes_optimal:bayes_optimal",
        r"least risk from $N = \alpha D$ samples",
        "risk_it",
        example={"alpha": 0.5},
    ),
    "erm": Computation(
        "slrlab.theory.erm:erm_theory",
        "test risk after training",
        **_TESTED,
        example={**_RIDGES, "tolerance": 0.02},
    ),
    "optimal-ridge": Computation(
        "slrlab.theory.erm:optimal_ridge",
        "the same at the best ridges",
        **_TESTED,
        example={"alpha": 8.0, "tolerance": 0.05},
    ),
    "simulate": Computation(
        "slrlab.simulation.training.erm:simulate_erm",
        "test risk of one simulated training",
        **_TRAINED,
        memory=_simulated_bytes,
    ),
    "flow": Computation(
        "slrlab.theory.landscape:gradient_flow", "risk at the end of gradient flow", "risk"
    ),
    "best-activation": Computation(
        "slrlab.experiments.departures:best_activation",
        "least risk of any activation of the atlas",
        "risk",
        "error",
        example={"activations": "softmax,linear"},
    ),
    "universality": Computation(
        "slrlab.experiments.comparison.law_gap:law_gap",
        "test risk of training on tokens of a law, minus the theory of Gaussian ones",
        "gap",
        "gap_error",
        example={**_RIDGES, "token_law": "rademacher", "dim": 20, "tolerance": 0.05},
        fixed={"seeds": 1},
        memory=_simulated_bytes,
    ),
    "labels": Computation(
        "slrlab.simulation.training.labels:simulate_labels",
        "test risk with keys from labelled locations",
        **_TRAINED,
        memory=_labelled_bytes,
    ),
    "sphere": Computation(
        "slrlab.experiments.descent.sphere:sphere_training",
        "risk after training on the sphere",
        "risk",
        example={"task": "marion", "scale": 0.1, "dim": 12, "time": 1.0},
        fixed={"seeds": 1},
    ),
    "sgd-retrieval": Computation(
        "slrlab.experiments.retrieval.sgd:sgd_retrieval",
        "risk after online SGD in stages of falling rate, and the signal of its scores",
        "risk",
        "risk_error",
        example={"dim": 10, "duration": 0.02, "test_samples": 200, "scored": 200},
    ),
    "heads": Computation(
        "slrlab.theory.heads.equal:equal_heads",
        "least risk of aligned heads, on directions that are equally likely",
        "risk",
        "error",
        example={"directions": 2, "activation": "bayes-softmax"},
        attention=heads_attention,
    ),
}


def computations_table() -> str:
    """Return what can be computed as a table in Markdown."""
    lines = ["| compute | value | needs | may have |", "|---|---|---|---|"]
    for name, item in COMPUTATIONS.items():
        needs, may = (
            ", ".join(f"`{key}`" for key, value in item.own.items() if (value is REQUIRED) == empty)
            for empty in (True, False)
        )
        lines.append(f"| `{name}` | {item.about} | {needs} | {may} |")
    return "\n".join(lines)

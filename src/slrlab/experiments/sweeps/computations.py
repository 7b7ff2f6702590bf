"""What a sweep can compute: each computation with its settings, its value and its memory.

A computation takes plain settings (as a TOML file holds them) and returns a result. This module
knows the public functions of the theory and the simulation, not how points are scheduled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from slrlab import _checks
from slrlab._result import Result
from slrlab.model.activations import make_activation
from slrlab.model.tasks import Task, make_task

Settings = Mapping[str, Any]
TASK: dict[str, Any] = {"task": "spiked", "signal": 2.0, "length": 3, "noise": 0.0}
ATTENTION: dict[str, Any] = {"activation": "softmax", "bias": None}
_POSITIVE = {"alpha", "tolerance", "size", "time"}
_NOT_NEGATIVE = {"ridge_k", "ridge_v"}
_COUNTS = {"dim", "test_samples"}


@dataclass(frozen=True)
class Computation:
    """A public function of settings, named as ``module:function`` and imported when it is used.

    ``value`` and ``error`` name the fields of the result that a row shows (an empty name: none);
    ``required`` settings have no default, ``optional`` ones that of the function; ``fixed``
    arguments are no settings; a ``seeded`` computation gives a point for each seed.
    """

    function: str
    value: str
    error: str = ""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    fixed: Settings = field(default_factory=dict)
    attends: bool = True
    seeded: bool = False
    memory: Callable[[Task, Settings], int] = lambda task, settings: 0

    @property
    def common(self) -> dict[str, Any]:
        """Settings that every computation of its sort has, with their defaults."""
        return TASK | (ATTENTION if self.attends else {})

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of all settings."""
        return (*self.common, *self.required, *self.optional)

    def complete(self, settings: Settings) -> dict[str, Any]:
        """Return the settings with defaults filled in, in one order: what a point is known by.

        Raises
        ------
        ValueError
            If a setting is unknown, missing or out of range.
        """
        for name in settings:
            _checks.choice(name, "setting", self.accepted)
        for name in self.required:
            if name not in settings:
                raise ValueError(f"setting {name} must be given, got nothing")
        defaults = _defaults(self.function)
        whole = self.common | {name: defaults[name] for name in self.optional} | dict(settings)
        task = task_of(whole)
        whole["signal"], whole["noise"] = task.signal, task.noise
        whole["length"] = str(task.length)
        if self.attends:
            make_activation(whole["activation"], bias=whole["bias"])
        whole = {name: _floats(value, name) for name, value in whole.items()}
        given = {name for name, value in whole.items() if value is not None}
        for name in _POSITIVE & given:
            whole[name] = _checks.positive(whole[name], name)
        for name in _NOT_NEGATIVE & given:
            whole[name] = _checks.non_negative(whole[name], name)
        for name in _COUNTS & given:
            whole[name] = _checks.integer(whole[name], name, low=0)
        self.memory(task, whole)
        return {name: whole[name] for name in self.accepted}

    def run(self, settings: Settings, seed: int) -> Result:
        """Compute one point."""
        given = {name: settings[name] for name in (*self.required, *self.optional)}
        if self.attends:
            given["activation"] = make_activation(settings["activation"], bias=settings["bias"])
        if self.seeded:
            given["seed"] = seed
        found: Result = _imported(self.function)(task_of(settings), **given, **self.fixed)
        return found


def _floats(value: Any, name: str) -> Any:
    """Turn whole numbers into floats, in lists too: 1 and 1.0 are one setting."""
    if isinstance(value, list | tuple):
        return [_floats(item, name) for item in value]
    return float(value) if type(value) is int and name not in _COUNTS else value


def task_of(settings: Settings) -> Task:
    """Return the task that settings describe."""
    given = {name: settings[name] for name in ("signal", "length", "noise")}
    return make_task(settings["task"], **given)


def _imported(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


@cache
def _defaults(function: str) -> dict[str, Any]:
    """Return the defaults of a function's arguments."""
    signature = inspect.signature(_imported(function))
    return {name: argument.default for name, argument in signature.parameters.items()}


def _simulated_bytes(task: Task, settings: Settings) -> int:
    from slrlab.simulation.training.erm import training_bytes

    return training_bytes(task, settings["dim"], settings["alpha"], settings["dtype"])


COMPUTATIONS: dict[str, Computation] = {
    "population": Computation(
        "slrlab.theory.population.minimal:minimal_risk", "risk", "error", optional=("tolerance",)
    ),
    "bayes": Computation(
        "slrlab.theory.bayes_optimal:bayes_optimal",
        "risk_it",
        required=("alpha",),
        optional=("tolerance",),
        attends=False,
    ),
    "erm": Computation(
        "slrlab.theory.erm:erm_theory",
        "test_risk",
        "test_risk_error",
        required=("alpha", "ridge_k", "ridge_v"),
        optional=("tolerance",),
        seeded=True,
    ),
    "optimal-ridge": Computation(
        "slrlab.theory.erm:optimal_ridge",
        "test_risk",
        "test_risk_error",
        required=("alpha",),
        optional=("tolerance",),
        seeded=True,
    ),
    "simulate": Computation(
        "slrlab.simulation.training.erm:simulate_erm",
        "test_risk",
        "test_risk_error",
        required=("dim", "alpha", "ridge_k", "ridge_v"),
        optional=("init", "test_samples", "teacher", "dtype"),
        fixed={"seeds": 1},
        seeded=True,
        memory=_simulated_bytes,
    ),
    "flow": Computation(
        "slrlab.theory.landscape:gradient_flow",
        "risk",
        optional=("start", "size", "time", "tolerance"),
        seeded=True,
    ),
}

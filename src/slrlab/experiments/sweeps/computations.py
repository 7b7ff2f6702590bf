"""What a sweep can compute: each computation with its settings, its value and its memory.

A computation takes plain settings (as a TOML file holds them) and returns a result. This module
knows the public functions of the theory and the simulation, not how points are scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slrlab import _checks
from slrlab._result import Result
from slrlab.model.activations import make_activation
from slrlab.model.tasks import Task, make_task

Settings = Mapping[str, Any]
TASK: dict[str, Any] = {"task": "spiked", "signal": 2.0, "length": 3, "noise": 0.0}
_NUMBERS = {"alpha", "ridge_k", "ridge_v", "tolerance", "size", "time"}
_COUNTS = {"dim", "test_samples"}
ATTENTION: dict[str, Any] = {"activation": "softmax", "bias": None}


@dataclass(frozen=True)
class Computation:
    """A function of settings.

    ``value`` and ``error`` name the fields of the result that a row shows (an empty name: none);
    ``required`` settings have no default; a ``seeded`` computation gives a point for each seed.
    """

    run: Callable[[Task, Settings, int], Result]
    value: str
    error: str = ""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
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
            If a setting is unknown or missing, or the task or the activation is no such thing.
        """
        for name in settings:
            _checks.choice(name, "setting", self.accepted)
        for name in self.required:
            if name not in settings:
                raise ValueError(f"setting {name} must be given, got nothing")
        whole = self.common | dict(settings)
        task = task_of(whole)
        whole["signal"], whole["noise"] = task.signal, task.noise
        whole["length"] = str(task.length)
        if self.attends:
            make_activation(whole["activation"], bias=whole["bias"])
        for name in _NUMBERS & whole.keys():  # 1 and 1.0 are one setting
            whole[name] = _checks.finite(whole[name], name)
        for name in _COUNTS & whole.keys():
            whole[name] = _checks.integer(whole[name], name, low=0)
        found = {name: whole[name] for name in self.accepted if name in whole}
        self.memory(task, found)
        return found


def task_of(settings: Settings) -> Task:
    """Return the task that settings describe."""
    given = {name: settings[name] for name in ("signal", "length", "noise")}
    return make_task(settings["task"], **given)


def _activation(settings: Settings) -> Any:
    return make_activation(settings["activation"], bias=settings["bias"])


def _some(settings: Settings, *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def _population(task: Task, settings: Settings, _: int) -> Result:
    from slrlab.theory.population import minimal_risk

    return minimal_risk(task, _activation(settings), **_some(settings, "tolerance"))


def _bayes(task: Task, settings: Settings, _: int) -> Result:
    from slrlab.theory.bayes_optimal import bayes_optimal

    return bayes_optimal(task, **_some(settings, "alpha", "tolerance"))


def _erm(task: Task, settings: Settings, seed: int) -> Result:
    from slrlab.theory.erm import erm_theory

    given = _some(settings, "alpha", "ridge_k", "ridge_v", "tolerance")
    return erm_theory(task, _activation(settings), seed=seed, **given)


def _best_ridge(task: Task, settings: Settings, seed: int) -> Result:
    from slrlab.theory.erm import optimal_ridge

    given = _some(settings, "alpha", "tolerance")
    return optimal_ridge(task, _activation(settings), seed=seed, **given)


_SIMULATED = ("dim", "alpha", "ridge_k", "ridge_v", "init", "test_samples", "teacher", "dtype")


def _simulate(task: Task, settings: Settings, seed: int) -> Result:
    from slrlab.simulation.erm import simulate_erm

    given = _some(settings, *_SIMULATED)
    return simulate_erm(task, _activation(settings), seeds=1, seed=seed, **given)


def _simulated_bytes(task: Task, settings: Settings) -> int:
    from slrlab.simulation.dataset import token_bytes
    from slrlab.simulation.erm import samples_of

    dim = _checks.integer(settings["dim"], "dim")
    alpha = _checks.positive(settings["alpha"], "alpha")
    size = token_bytes(task, dim, samples_of(alpha, dim), settings.get("dtype", "float32"))
    return int(1.3 * size)


def _flow(task: Task, settings: Settings, seed: int) -> Result:
    from slrlab.theory.landscape import gradient_flow

    given = _some(settings, "start", "size", "time", "tolerance")
    return gradient_flow(task, _activation(settings), seed=seed, **given)


COMPUTATIONS: dict[str, Computation] = {
    "population": Computation(_population, "risk", "error", optional=("tolerance",)),
    "bayes": Computation(_bayes, "risk_it", "", ("alpha",), optional=("tolerance",), attends=False),
    "erm": Computation(
        _erm,
        "test_risk",
        "test_risk_error",
        ("alpha", "ridge_k", "ridge_v"),
        ("tolerance",),
        seeded=True,
    ),
    "optimal-ridge": Computation(
        _best_ridge, "test_risk", "test_risk_error", ("alpha",), ("tolerance",), seeded=True
    ),
    "simulate": Computation(
        _simulate,
        "test_risk",
        "test_risk_error",
        ("dim", "alpha", "ridge_k", "ridge_v"),
        ("init", "test_samples", "teacher", "dtype"),
        seeded=True,
        memory=_simulated_bytes,
    ),
    "flow": Computation(
        _flow, "risk", "", optional=("start", "size", "time", "tolerance"), seeded=True
    ),
}

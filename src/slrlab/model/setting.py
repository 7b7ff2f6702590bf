"""What a result belongs to: a task, an activation and, with finite data, how it is trained.

Independent of what is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from slrlab._result import plain
from slrlab.model.activations import Activation, make_activation
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task

_COMMON = ("signal", "length", "noise")  # parameters that all tasks have


@dataclass(frozen=True, repr=False)
class Setting:
    """A task, an activation and, with finite data, ``alpha`` and the ridges.

    Parameters
    ----------
    task
        What is learned.
    activation
        Attention that learns it; None where no activation enters.
    alpha
        Training sequences per dimension, ``N/D``; ``inf`` for infinite data.
    ridge_k, ridge_v
        Ridge penalties of the training; they have no effect with infinite data.

    Examples
    --------
    >>> from slrlab import Setting, SpikedSLR, make_activation
    >>> print(Setting(SpikedSLR(signal=9.0, length=10), make_activation("softmax")))
    softmax on spiked (signal 9, length 10)
    """

    task: Task
    activation: Activation | None = None
    alpha: float = math.inf
    ridge_k: float = 0.0
    ridge_v: float = 0.0

    @property
    def activation_name(self) -> str:
        """Name of the activation; empty where there is none."""
        return "" if self.activation is None else self.activation.name

    @property
    def training(self) -> dict[str, float]:
        """``alpha`` and the ridges, by their names."""
        return {"alpha": self.alpha, "ridge_k": self.ridge_k, "ridge_v": self.ridge_v}

    @property
    def arguments(self) -> dict[str, Any]:
        """All of it, as arguments of `slrlab.erm_theory` and `slrlab.simulate_erm`."""
        return {"task": self.task, "activation": self.activation} | self.training

    def activation_at(self, bias: float) -> Activation:
        """Return the activation with a given bias.

        Raises
        ------
        ValueError
            If the setting has no activation.
        """
        if self.activation is None:
            raise ValueError(f"setting must have an activation, got {self}")
        return self.activation.with_bias(bias)

    def _parts(self) -> dict[str, Any]:
        """Return what applies, by its name in tables, in JSON and on the command line."""
        task = self.task
        parts: dict[str, Any] = {"task": task.name} | task.parameters
        if self.activation is not None:
            parts["activation"] = self.activation_name
        if math.isinf(self.alpha):
            return parts
        return parts | (self.training if self.activation is not None else {"alpha": self.alpha})

    def to_dict(self) -> dict[str, Any]:
        """Return what applies as JSON-ready values: names, numbers and the label of the length."""
        return {name: plain(value) for name, value in self._parts().items()}

    def to_data(self) -> dict[str, Any]:
        """Return names and numbers from which `from_data` makes this setting again.

        Raises
        ------
        TypeError
            If the name of the task or of the activation does not stand for it.
        """
        task, activation = self.task, self.activation
        for part in (task, activation):
            if part is not None and not part.is_named:
                raise TypeError(f"{part.name} is not registered: it cannot be kept as data")
        bias = {} if activation is None else {"bias": activation.bias}
        return self._parts() | self.training | bias

    @classmethod
    def from_data(
        cls,
        *,
        task: str,
        activation: str | None = None,
        bias: float | None = None,
        alpha: float = math.inf,
        ridge_k: float = 0.0,
        ridge_v: float = 0.0,
        **parameters: Any,
    ) -> Self:
        """Return the setting that `to_data` described."""
        learner = None if activation is None else make_activation(activation).with_bias(bias)
        return cls(make_task(task, **parameters), learner, alpha, ridge_k, ridge_v)

    def __repr__(self) -> str:
        # the same in every process and version: seeds of data and stored calls depend on it
        parts, task, activation = self._parts(), self.task, self.activation
        law = task.length
        parts["length"] = law.longest if len(law.lengths) == 1 else str(law)
        if not task.is_named:
            parts["task"] = task
        if activation is not None and not activation.is_named:
            parts["activation"] = activation
        elif activation is not None and activation != make_activation(activation.name):
            parts["activation"] = (activation.name, activation.bias)
        return f"Setting({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def __str__(self) -> str:
        task = self.task
        own = {key: value for key, value in task.parameters.items() if key not in _COMMON}
        numbers = [
            f"{key} {value:g}" for key, value in own.items() if isinstance(value, int | float)
        ]
        shown = ", ".join([f"signal {task.signal:g}", f"length {task.length}", *numbers])
        where = f"{task.name} ({shown})"
        text = where if self.activation is None else f"{self.activation_name} on {where}"
        return text if math.isinf(self.alpha) else f"{text}, alpha {self.alpha:g}"

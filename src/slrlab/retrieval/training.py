"""Training of one model on one task, from a seed; a killed run goes on at its last checkpoint.

Every batch is drawn from the seed and the number of its step, so that a run that goes on sees the
data that it would have seen. Files hold plain arrays: reading one runs no code. Independent of
which runs a study needs.
"""

from __future__ import annotations

import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import CheckpointWarning
from slrlab._result import Result, Status
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import Batch, RetrievalTask

Tensor = Any
_BATCHES, _CHECKS, _TESTS = 1, 2, 3  # streams of random numbers of a seed
_BETAS, _EPSILON = (0.9, 0.99), 1e-8
_ENTRIES = 2**23  # numbers that one pass over test sequences may hold


@dataclass(frozen=True)
class Training:
    """How to train: Adam with a warm-up and a cosine to zero, on fresh data.

    Training stops early when the accuracy on ``check_sequences`` reaches ``stop``.
    """

    learning_rate: float = 1e-2
    steps: int = 1000
    batch: int = 64
    warm_up: int = 100
    clip: float = 1.0
    check_every: int = 50
    check_sequences: int = 128
    stop: float = 0.998

    def __post_init__(self) -> None:
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.positive(self.clip, "clip")
        for name in ("steps", "batch", "check_every", "check_sequences"):
            _checks.integer(getattr(self, name), name)
        _checks.integer(self.warm_up, "warm_up", low=0)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        if step <= self.warm_up:
            return self.learning_rate * step / self.warm_up
        share = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * share))


@dataclass(frozen=True)
class TrainedModel(Result):
    """A model after training.

    Attributes
    ----------
    loss, accuracy
        Mean cross entropy in nats and share of correct answers on the last check.
    steps
        Steps that were taken.
    steps_to_99
        First check with an accuracy of at least 0.99, nan if there was none.
    checks
        Accuracies on the checks.
    vector
        The parameters.
    """

    loss: float
    accuracy: float
    steps: int
    steps_to_99: float
    checks: tuple[float, ...]
    vector: npt.NDArray[np.float32]


@dataclass
class _State:
    """What a checkpoint holds."""

    vector: Tensor
    first: Tensor
    second: Tensor
    step: int
    checks: list[tuple[float, float]]  # losses and accuracies


def train(
    model: Model,
    task: RetrievalTask,
    check: RetrievalTask | None = None,
    *,
    seed: int = 0,
    settings: Training = Training(),
    checkpoint: Path | None = None,
) -> TrainedModel:
    """Train a model on a task.

    Parameters
    ----------
    model
        Sizes of the model; its features and classes are those of the task.
    task
        What it is trained on.
    check
        What it is checked on; None for the same.
    seed
        Fixes the parameters before training and all data.
    settings
        How to train.
    checkpoint
        File ``.npz`` that is written at each check and removed at the end. If it exists, training
        goes on from there; if it is damaged, training starts again with a warning.

    Returns
    -------
    TrainedModel
        Status ``sampled``; ``diverged`` if the loss is not a number.

    Raises
    ------
    ValueError
        If the checkpoint is of another run.
    SlrlabError
        If the extra ``retrieval`` is not installed.
    """
    torch = import_torch()
    _checks.integer(seed, "seed", low=0)
    label = repr((model, task, check, seed, asdict(settings)))
    checked = (check or task).draw(_stream(seed, _CHECKS), settings.check_sequences)
    with single_thread():
        state = _read(checkpoint, label) or _begin(torch, model, seed)
        while state.step < settings.steps and not _ended(state, settings):
            _advance(torch, model, task, seed, settings, state)
            if state.step % settings.check_every == 0 or state.step == settings.steps:
                state.checks.append(measure(model, state.vector.detach(), checked))
                _write(checkpoint, label, state)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return _result(state, settings)


def measure(model: Model, vector: Any, batch: Batch) -> tuple[float, float]:
    """Return the mean cross entropy in nats and the share of correct answers."""
    torch = import_torch()
    rows, questions = batch.positions.shape
    entries = model.width * batch.inputs.shape[1] + questions * (
        model.classes + batch.inputs.shape[1]
    )
    size = max(1, _ENTRIES // (8 * entries))
    parameters = torch.as_tensor(vector)
    losses = right = 0.0
    with torch.no_grad():
        for begin in range(0, rows, size):
            inputs, positions, targets = tensors(batch, slice(begin, begin + size))
            logits = model.answers(parameters, inputs, positions).flatten(0, 1)
            entropy = torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum")
            losses += float(entropy)
            right += float((logits.argmax(-1) == targets.flatten()).sum())
    return losses / (rows * questions), right / (rows * questions)


def evaluate(
    model: Model, vector: Any, task: RetrievalTask, *, seed: int = 0, sequences: int = 512
) -> tuple[float, float]:
    """Return loss and accuracy on sequences that training and checks have not seen."""
    with single_thread():
        return measure(model, vector, task.draw(_stream(seed, _TESTS), sequences))


def head_scores(
    model: Model, vector: Any, task: RetrievalTask, *, seed: int = 0, sequences: int = 512
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the scores behind the last answer of each sequence, and the position of the answer.

    `slrlab.diagnose_scores` takes both.
    """
    return _of_head(model.scores, vector, task, seed, sequences)


def head_weights(
    model: Model, vector: Any, task: RetrievalTask, *, seed: int = 0, sequences: int = 512
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the weights behind the last answer of each sequence, and its position."""
    return _of_head(model.weights, vector, task, seed, sequences)


def _of_head(
    read: Callable[[Tensor, Tensor, Tensor], Tensor],
    vector: Any,
    task: RetrievalTask,
    seed: int,
    sequences: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    torch = import_torch()
    batch = task.draw(_stream(seed, _TESTS), sequences)
    if batch.sources is None:
        _checks.fail("task", "one whose answers stand at a location", task.name)
    inputs, positions, _ = tensors(batch, slice(None))
    with single_thread(), torch.no_grad():
        found = read(torch.as_tensor(vector), inputs, positions[:, -1:])
    return found[:, 0].double().numpy(), batch.sources[:, -1]


def tensors(batch: Batch, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs, positions and targets of some sequences."""
    torch = import_torch()
    inputs = torch.from_numpy(batch.inputs[rows])
    if inputs.is_floating_point():
        inputs = inputs.float()
    return inputs, torch.from_numpy(batch.positions[rows]), torch.from_numpy(batch.targets[rows])


@contextmanager
def single_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the matrices are small, and more threads are slower."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _stream(seed: int, *stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, *stream])


def _begin(torch: Any, model: Model, seed: int) -> _State:
    vector = torch.from_numpy(model.start(seed)).requires_grad_(True)
    return _State(vector, torch.zeros_like(vector), torch.zeros_like(vector), 0, [])


def _ended(state: _State, settings: Training) -> bool:
    if not state.checks:
        return False
    loss, accuracy = state.checks[-1]
    return not math.isfinite(loss) or accuracy >= settings.stop


def _advance(
    torch: Any, model: Model, task: RetrievalTask, seed: int, settings: Training, state: _State
) -> None:
    """Take one step of Adam with a clipped gradient."""
    state.step += 1
    drawn = task.draw(_stream(seed, _BATCHES, state.step), settings.batch)
    inputs, positions, targets = tensors(drawn, slice(None))
    logits = model.answers(state.vector, inputs, positions).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten())
    (gradient,) = torch.autograd.grad(loss, state.vector)
    with torch.no_grad():
        gradient *= min(1.0, settings.clip / (float(gradient.norm()) + _EPSILON))
        one, two = _BETAS
        state.first.mul_(one).add_(gradient, alpha=1.0 - one)
        state.second.mul_(two).addcmul_(gradient, gradient, value=1.0 - two)
        mean = state.first / (1.0 - one**state.step)
        scale = (state.second / (1.0 - two**state.step)).sqrt() + _EPSILON
        state.vector -= settings.rate(state.step) * mean / scale


def _result(state: _State, settings: Training) -> TrainedModel:
    loss, accuracy = state.checks[-1]
    checks = tuple(accuracy for _, accuracy in state.checks)
    early = [settings.check_every * (i + 1) for i, one in enumerate(checks) if one >= 0.99]
    return TrainedModel(
        status=Status.SAMPLED if math.isfinite(loss) else Status.DIVERGED,
        loss=loss,
        accuracy=accuracy,
        steps=state.step,
        steps_to_99=float(min(early[0], state.step)) if early else math.nan,
        checks=checks,
        vector=state.vector.detach().numpy(),
    )


def _write(path: Path | None, label: str, state: _State) -> None:
    """Replace the checkpoint: a kill leaves the old or the new one."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"new-{path.name}")
    arrays = {name: getattr(state, name).detach().numpy() for name in ("vector", "first", "second")}
    with new.open("wb") as file:
        np.savez(file, run=label, step=state.step, checks=np.array(state.checks), **arrays)
        file.flush()
        os.fsync(file.fileno())  # on the disk before the old one is replaced
    new.replace(path)


def _read(path: Path | None, label: str) -> _State | None:
    if path is None or not path.exists():
        return None
    torch = import_torch()
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        vector, first, second = (
            torch.from_numpy(arrays[name]) for name in ("vector", "first", "second")
        )
        checks = [(float(loss), float(accuracy)) for loss, accuracy in arrays["checks"]]
        step, run = int(arrays["step"]), str(arrays["run"])
    except (KeyError, OSError, EOFError, ValueError, TypeError, BadZipFile, zlib.error) as problem:
        message = f"{path} is damaged ({problem}): training starts again"
        warnings.warn(message, CheckpointWarning, stacklevel=3)
        return None
    if run != label:
        _checks.fail("checkpoint", "a file of this run", str(path))
    return _State(vector.requires_grad_(True), first, second, step, checks)

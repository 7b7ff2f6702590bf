r"""Stochastic gradient descent, on fresh sequences or on repeated passes over given ones.

A step of rate ``η`` subtracts ``η ∂ρ²/∂k`` of one sequence, or its mean over a batch. On average
that is ``η/D`` times the drift ``−D ∂E/∂k`` of `slrlab.simulation.descent.full_batch`, so a step
takes the time ``η/D``: for ``η → 0`` the path is the same flow, at finite ``η`` its noise adds
``O(η)`` to ``dq/dt``. Independent of the theory of the flow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._result import Estimate, Status
from slrlab._types import FloatArray, Report
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import Activation
from slrlab.model.sphere import Sphere
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Dataset, Teacher, draw_dataset, fresh_batches
from slrlab.simulation.data.packing import offsets_of
from slrlab.simulation.descent.full_batch import begin, ridges
from slrlab.simulation.descent.trajectory import Recorder, Trajectory, ran_away
from slrlab.simulation.training.erm import trainable
from slrlab.simulation.training.objective import Weights, chunks_of, predict

Indices = npt.NDArray[np.int64]
_BLOCK = 1 << 22  # numbers of fresh data held at a time: part of the meaning of a seed


def sgd(
    data: Dataset,
    activation: Activation | str,
    *,
    rate: float,
    epochs: int,
    batch: int = 1,
    start: Weights | str = "random",
    ridge_k: float = 0.0,
    ridge_v: float = 0.0,
    record: int = 100,
    seed: int = 0,
    report: Report | None = None,
) -> Trajectory:
    r"""Descend on one sequence (or batch) after the other, in a new order in each epoch.

    A step subtracts ``η ∂/∂k`` of ``ρ² + (r_k|k|² + r_v|v|²)/N``, with ``ρ²`` averaged over the
    batch, and takes the time ``η/D``. An epoch leaves out sequences that do not fill a batch.
    Parameters are those of `gradient_descent` but for ``epochs`` and ``batch``; the seed also
    determines the orders.

    Parameters
    ----------
    data
        The sequences and labels.
    activation
        The activation that is trained.
    rate
        Learning rate ``η``.
    epochs
        Number of passes over the data.
    batch
        Sequences in one step.
    start
        Weights to start from, ``"random"`` or ``"informed"``.
    ridge_k, ridge_v
        Ridges of keys and values.
    record
        Number of times to keep, evenly spaced from start to end.
    seed
        Seed of the start and of the orders.
    report
        Called with the progress.

    Returns
    -------
    Trajectory
        Order parameters and loss along the path.

    Raises
    ------
    ValueError
        If a number is out of range, the batch exceeds the data or the start has the wrong shape.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset, sgd
    >>> data = draw_dataset(SpikedSLR(signal=4.0, length=3), dim=100, samples=800)
    >>> path = sgd(data, "softmax", rate=0.1, epochs=10, start="informed")
    >>> bool(path.loss[-1] < path.loss[0]), int(path.steps[-1])
    (True, 8000)
    """
    chosen, rate = trainable(activation), _checks.positive(rate, "rate")
    epochs, batch = _checks.integer(epochs, "epochs"), _checks.integer(batch, "batch")
    if batch > data.samples:
        raise ValueError(f"batch must be at most the {data.samples} sequences, got {batch}")
    r_k, r_v = ridges(ridge_k, ridge_v)
    shrink = 1.0 - 2.0 * rate * r_k / data.samples, 1.0 - 2.0 * rate * r_v / data.samples
    longest = int(data.lengths.max())
    descent = _Descent(chosen, begin(start, data, chosen, seed), rate, shrink, batch, longest)

    def measure(weights: Weights) -> Estimate:
        residuals = data.labels - predict(data, chosen, weights)
        return Estimate(float(residuals @ residuals) / data.samples, 0.0)

    total = epochs * (data.samples // batch)
    path = Recorder(data.teacher, data.dim, total, record, measure, report)
    rng = np.random.default_rng((_checks.integer(seed, "seed", low=0), 2))
    status = _follow(descent, ((data, rng.permutation(data.samples)) for _ in range(epochs)), path)
    setting = {"activation": chosen.name, "rate": rate, "batch": batch}
    return path.result(status, tick=rate / data.dim, method="sgd", **setting)


def online_sgd(
    task: Task,
    activation: Activation | str,
    *,
    dim: int,
    rate: float,
    time: float | None = None,
    steps: int | None = None,
    batch: int = 1,
    mirrored: bool = False,
    sphere: Sphere | None = None,
    start: Weights | str = "random",
    teacher: Teacher | str = "normalised",
    test_samples: int = 2000,
    record: int = 100,
    seed: int = 0,
    report: Report | None = None,
) -> Trajectory:
    r"""Descend on fresh sequences, each used once.

    A step subtracts ``η ∂ρ²/∂k``, averaged over the batch, and takes the time ``η/D``.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is learned.
    dim, rate
        ``D``, and ``η > 0`` of order one.
    time, steps
        Length of the path, as ``time = steps·η/D`` or in steps; one of the two.
    batch
        Sequences in a step.
    mirrored
        Use each sequence together with its mirror image through the plane of the teachers, which
        has the same label and the same law: the gradient stays unbiased, and most of its noise
        cancels. ``batch`` counts both and must be even.
    sphere
        Lengths of keys and values, which a step then does not change: the gradient is projected,
        and the vectors are normalised after each step. None lets them grow.
    start, record, report
        As for `gradient_descent`.
    teacher
        ``"normalised"``, ``"gaussian"`` (drawn from the seed) or given vectors.
    test_samples
        Number of further sequences, on which the loss is measured.
    seed
        The same seed gives the same path, whatever is recorded.

    Returns
    -------
    Trajectory
        Overlaps and risk at the recorded steps.

    Raises
    ------
    ValueError
        If a number is out of range, not exactly one of time and steps is given, or the start has
        the wrong shape.

    Examples
    --------
    >>> from slrlab import SpikedSLR, online_sgd
    >>> task = SpikedSLR(signal=4.0, length=3)
    >>> path = online_sgd(task, "softmax", dim=100, rate=0.1, time=1.0, start="informed")
    >>> int(path.steps[-1]), path.status
    (1000, <Status.SAMPLED: 'sampled'>)
    """
    chosen, rate = trainable(activation), _checks.positive(rate, "rate")
    batch, dim = _checks.integer(batch, "batch"), _checks.integer(dim, "dim", low=2)
    if (time is None) == (steps is None):
        given = f"time {time} and steps {steps}"
        raise ValueError(f"time or steps must be given, one of the two, got {given}")
    if steps is None:
        steps = math.ceil(_checks.positive(time, "time") * dim / rate - 1e-9)
    else:
        steps = _checks.integer(steps, "steps", high=_checks.LARGE)
    if mirrored and batch % 2:
        raise ValueError(f"batch must be even if mirrored, got {batch}")
    test_samples = _checks.integer(test_samples, "test_samples", low=2)
    test = draw_dataset(task, dim=dim, samples=test_samples, seed=seed, teacher=teacher)
    first, longest = begin(start, test, chosen, seed), task.length.longest
    state = (chosen, first, rate, (1.0, 1.0), batch, longest)
    descent = _Descent(*state) if sphere is None else _SphereDescent(*state, sphere=sphere)

    def measure(weights: Weights) -> Estimate:
        return Estimate.of((test.labels - predict(test, chosen, weights)) ** 2)

    path = Recorder(test.teacher, dim, steps, record, measure, report)
    status = _follow(descent, _fresh(task, test.teacher, seed, batch, steps, mirrored), path)
    setting = {"activation": chosen.name, "rate": rate, "batch": batch}
    method = "online sgd" if sphere is None else "online sgd on the sphere"
    return path.result(status, tick=rate / dim, method=method, **setting)


class _Descent:
    """State of a stochastic descent; its vectors contain the factor ``1/√D``."""

    def __init__(
        self,
        activation: Activation,
        start: Weights,
        rate: float,
        shrink: tuple[float, float],
        batch: int,
        longest: int,
    ) -> None:
        self.root = math.sqrt(start.k.size)
        self.k, self.v, self.bias = start.k / self.root, start.v / self.root, start.bias
        self.batch = batch
        self.shrink = shrink
        self.size = 2.0 * rate / start.k.size  # the kernel's gradients are those of ½ρ²
        self.learns_bias = activation.bias is None
        self.code = activation_code(activation, longest)

    def weights(self) -> Weights:
        return Weights(self.k * self.root, self.v * self.root, self.bias)

    def advance(self, data: Dataset, order: Indices) -> None:
        """Take a step for each batch of sequences in ``order``."""
        from slrlab.simulation.training.gradient_kernel import descend

        code = self.code.numbers, self.code.table, self.code.scales
        bias_size = self.size if self.learns_bias else 0.0
        if self.batch == 1:
            sizes = (self.size, self.size, bias_size)
            given, state = (data.tokens, data.offsets, data.labels), (self.k, self.v, self.bias)
            _, self.bias = descend(*given, order, *state, sizes, self.shrink, *code)
            return
        for chosen in order.reshape(-1, self.batch):
            gradient, grad_bias = self.gradient(_subset(data, chosen))
            self.k = self.shrink[0] * self.k - self.size / self.batch * gradient[0]
            self.v = self.shrink[1] * self.v - self.size / self.batch * gradient[1]
            self.bias -= bias_size / self.batch * grad_bias

    def gradient(self, part: Dataset) -> tuple[FloatArray, float]:
        """Return the gradient of ``½Σρ²`` of a batch in the vectors and in the bias."""
        from slrlab.simulation.training.gradient_kernel import loss_and_gradient

        kind, code = part.tokens.dtype, (self.code.numbers, self.code.table, self.code.scales)
        batch = (part.tokens, part.offsets, part.labels, np.empty(0))
        state = (self.k.astype(kind), self.v.astype(kind), self.bias)
        _, gradient, grad_bias, _ = loss_and_gradient(*batch, *state, *code, chunks_of(part))
        return gradient, grad_bias


class _SphereDescent(_Descent):
    """A descent that leaves the lengths of the vectors to a `Sphere`."""

    def __init__(self, *state: Any, sphere: Sphere) -> None:
        super().__init__(*state)
        self.sphere, self.steps = sphere, 0
        if not (self.k.any() and self.v.any()):
            raise ValueError("start must have vectors that are not 0, got 0")
        self._normalise()

    def _normalise(self) -> None:
        length = self.sphere.at(self.steps * self.size / 2.0)
        self.k *= length / np.linalg.norm(self.k)
        self.v /= np.linalg.norm(self.v)

    def advance(self, data: Dataset, order: Indices) -> None:
        for chosen in order.reshape(-1, self.batch):
            gradient, grad_bias = self.gradient(_subset(data, chosen))
            length = float(np.linalg.norm(self.k))
            for vector, own, scale in ((self.k, gradient[0], length), (self.v, gradient[1], 1.0)):
                # the coordinates are the directions, vector over scale: one factor for the
                # gradient in them, one for the step of the vector
                along = own - vector * (vector @ own) / scale**2
                vector -= self.size / self.batch * scale**2 * along
            if self.learns_bias:
                self.bias -= self.size / self.batch * grad_bias
            self.steps += 1
            self._normalise()


def _follow(descent: _Descent, pieces: Iterable[tuple[Dataset, Indices]], path: Recorder) -> Status:
    """Descend on all pieces and record the path at its stops."""
    path.keep(0, descent.weights())
    stops = path.stops[1:].tolist()
    done = 0
    for data, order in pieces:
        used, here = order.size // descent.batch, 0
        while stops and here < used:
            count = min(used - here, stops[0] - done)
            with np.errstate(over="ignore", invalid="ignore"):  # ran_away reports an overflow
                descent.advance(data, order[here * descent.batch :][: count * descent.batch])
                weights = descent.weights()
            here, done = here + count, done + count
            if ran_away(weights.k, weights.v):
                return Status.DIVERGED
            if done == stops[0]:
                path.keep(stops.pop(0), weights)
    return Status.SAMPLED


def _fresh(
    task: Task, teacher: Teacher | None, seed: int, batch: int, total: int, mirrored: bool
) -> Iterator[tuple[Dataset, Indices]]:
    assert teacher is not None
    drawn = batch // 2 if mirrored else batch
    each = max(1, int(_BLOCK / (teacher.dim * task.length.mean * batch)))
    count, size = drawn * total, drawn * each
    # stream 0 is the test sample
    for data in fresh_batches(task, teacher, samples=count, seed=seed, size=size):
        order = np.arange(data.samples)
        if mirrored:  # half a batch, then its mirror images
            both = np.stack([order, order + data.samples]).reshape(2, -1, drawn)
            data, order = _with_images(data, teacher), both.transpose(1, 0, 2).ravel()
        yield data, order


def _with_images(data: Dataset, teacher: Teacher) -> Dataset:
    """Return the sequences followed by their mirror images.

    The part of each token orthogonal to both teachers, which is Gaussian, changes its sign.
    """
    plane = np.linalg.qr(np.stack([teacher.keys, teacher.values]).T)[0].astype(data.tokens.dtype)
    images = (data.tokens @ (2.0 * plane)) @ plane.T
    images -= data.tokens
    return Dataset(
        np.concatenate([data.tokens, images]),
        np.concatenate([data.offsets, data.offsets[-1] + data.offsets[1:]]),
        np.concatenate([data.labels, data.labels]),
    )


def _subset(data: Dataset, chosen: Indices) -> Dataset:
    """Return the chosen sequences, packed."""
    lengths = data.lengths[chosen]
    offsets = offsets_of(lengths)
    rows = np.arange(offsets[-1]) + np.repeat(data.offsets[chosen] - offsets[:-1], lengths)
    return Dataset(data.tokens[rows], offsets, data.labels[chosen])

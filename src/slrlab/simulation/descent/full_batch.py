r"""Gradient descent on given data, and the time that all descents share.

For small steps every descent follows the gradient flow of the risk ``E(y − f)²`` (no ½) in
``θ = (k/√D, v/√D, bias)``,

    dθ/dt = −∂E/∂θ,      that is      dk/dt = −D ∂E/∂k,   dv/dt = −D ∂E/∂v.

The risk depends on ``k`` through ``m = k·k*/D`` and ``q = k·k/D``, so ``∂E/∂k`` has entries of
order ``1/D`` and ``dm/dt = −∂E/∂m − …`` is of order one: time does not depend on the dimension. A
full-batch step of rate ``η`` takes the time ``η``, a stochastic one ``η/D`` (see
`slrlab.simulation.descent.stochastic`). Independent of the theory of the flow.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate, Status
from slrlab._types import Report
from slrlab.model.activations import Activation
from slrlab.simulation.data.dataset import Dataset, Teacher
from slrlab.simulation.descent.trajectory import RUNAWAY, Recorder, Trajectory, ran_away
from slrlab.simulation.training.erm import STARTS, start_weights, trainable
from slrlab.simulation.training.objective import Objective, Weights


def gradient_descent(
    data: Dataset,
    activation: Activation | str,
    *,
    rate: float,
    steps: int,
    start: Weights | str = "random",
    ridge_k: float = 0.0,
    ridge_v: float = 0.0,
    tolerance: float | None = None,
    record: int = 100,
    seed: int = 0,
    report: Report | None = None,
) -> Trajectory:
    r"""Descend the mean loss of all sequences, ``(1/N)[Σρ² + r_k|k|² + r_v|v|²]``.

    This is ``2F/N`` of the objective ``F`` of training, with the same minima. A step is
    ``k ← k − η D ∂/∂k`` (likewise ``v``; ``bias ← bias − η ∂/∂bias``) and takes the time ``η``:
    order parameters move by ``O(η)`` in any dimension.

    Parameters
    ----------
    data, activation
        Sequences with labels, and the attention; a free bias is learned, without penalty.
    rate, steps
        ``η > 0`` and the number of steps.
    start
        First vectors: ``"random"`` (small), ``"informed"`` (the teachers), or given ones.
    ridge_k, ridge_v
        Penalties ``>= 0``, in the units of `slrlab.simulate_erm`.
    tolerance
        Stop when ``|∇F| <= tolerance·|y|``; None to take all steps.
    record
        Number of times to keep, evenly spaced from start to end.
    seed
        Seed of a random start.
    report
        Called as ``report(done, total, label)`` at the times kept.

    Returns
    -------
    Trajectory
        Overlaps and risk along the descent.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset, gradient_descent
    >>> data = draw_dataset(SpikedSLR(signal=4.0, length=3), dim=100, samples=800)
    >>> path = gradient_descent(data, "softmax", rate=0.2, steps=50, start="informed")
    >>> bool(path.loss[-1] < path.loss[0]), float(path.times[-1])
    (True, 10.0)
    """
    chosen, rate = trainable(activation), _checks.positive(rate, "rate")
    steps = _checks.integer(steps, "steps", high=_checks.LARGE)
    goal = 0.0 if tolerance is None else _checks.positive(tolerance, "tolerance")
    objective = Objective(data, chosen, *ridges(ridge_k, ridge_v))
    theta = begin(start, data, chosen, seed).to_vector(learn_bias=objective.learns_bias)
    size = np.full(theta.size, 2.0 * rate * data.dim / data.samples)
    size[2 * data.dim :] /= data.dim  # the bias is a coordinate of the flow as it is

    def measure(_: Weights) -> Estimate:
        return Estimate(2.0 * objective.loss / data.samples, 0.0)

    path = Recorder(data.teacher, data.dim, steps, record, measure, report)
    unit = float(np.linalg.norm(data.labels)) or 1.0
    kept, status = set(path.stops.tolist()), Status.SAMPLED
    for step in range(steps + 1):
        if ran_away(theta[: data.dim], theta[data.dim : 2 * data.dim]):
            status = Status.DIVERGED
            break
        _, gradient = objective(theta)
        reached = float(np.linalg.norm(gradient)) <= goal * unit
        if step in kept or reached:
            path.keep(step, objective.weights(theta))
        if reached:
            status = Status.CONVERGED
            break
        theta = theta - size * gradient
    if status is Status.SAMPLED and tolerance is not None:
        status = Status.NOT_CONVERGED
    setting = {"activation": chosen.name, "rate": rate, "batch": data.samples}
    return path.result(status, tick=rate, method="gradient descent", **setting)


def ridges(ridge_k: float, ridge_v: float) -> tuple[float, float]:
    """Return both penalties, checked."""
    return _checks.non_negative(ridge_k, "ridge_k"), _checks.non_negative(ridge_v, "ridge_v")


def begin(start: Weights | str, data: Dataset, activation: Activation, seed: int) -> Weights:
    """Return the first vectors, checked and copied as float64."""
    if isinstance(start, str):
        _checks.choice(start, "start", STARTS)
        if data.teacher is None and start == "informed":
            raise ValueError("start must be vectors or random without a teacher, got informed")
        unknown = np.zeros(data.dim)
        return start_weights(start, data.teacher or Teacher(unknown, unknown), activation, seed)
    k, v = (np.array(vector, dtype=float) for vector in (start.k, start.v))
    if k.shape != (data.dim,) or v.shape != (data.dim,):
        raise ValueError(
            f"start must have vectors of shape ({data.dim},), got shapes {k.shape} and {v.shape}"
        )
    if not (np.isfinite(k).all() and np.isfinite(v).all() and math.isfinite(start.bias)):
        raise ValueError("start must hold finite numbers only, got nan or inf")
    if ran_away(k, v):
        raise ValueError(f"start must have |k|²/D and |v|²/D below {RUNAWAY:g}, got more")
    return Weights(k, v, start.bias if activation.bias is None else activation.bias)

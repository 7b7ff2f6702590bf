r"""Simulated training at given ``α = N/D``: draw data, train, test, for several seeds.

It shares the model and numerical routines with the finite-sample theory, no formula of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, mark_of
from slrlab._result import Estimate, Status, TrainedRisk, plain
from slrlab._types import Axes, Report
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import Activation, make_activation
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.model.token_laws import TokenLaw
from slrlab.simulation.data.dataset import (
    Teacher,
    check_memory,
    draw_dataset,
    fresh_batches,
    token_bytes,
)
from slrlab.simulation.training.objective import Weights, predict
from slrlab.simulation.training.optimiser import Trained, Watch, check_training, train

STARTS = ("informed", "random")
SMALL = 0.1  # standard deviation of the entries of a random start


@dataclass(frozen=True)
class ErmRun:
    """One training of a simulation."""

    seed: int
    status: Status
    test_risk: float
    test_risk_error: float
    train_mse: float
    objective: float
    bias: float
    overlaps: FullOrderParameters
    gradient_norm: float
    iterations: int
    passes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers flat, for tables and JSON."""
        own = {name: plain(value) for name, value in vars(self).items() if name != "overlaps"}
        return own | {name: plain(value) for name, value in vars(self.overlaps).items()}


@dataclass(frozen=True)
class ErmSimulation(TrainedRisk):
    """Attention trained on simulated data, averaged over seeds.

    Attributes
    ----------
    test_risk, test_risk_error
        Risk measured on fresh data and its standard error: over seeds, or with one seed over the
        test sample.
    train_mse, objective
        Mean squared residual on the training data, and ``F/D``.
    m_k, m_v, q_k, q_v
        Order parameters ``k·k*/D``, ``v·v*/D``, ``|k|²/D``, ``|v|²/D``.
    m_kv, m_vk, q_kv
        Those that vanish on the manifold M as ``D → ∞``.
    bias
        Learned (or given) bias of the scores.
    errors
        Standard errors over seeds of the numbers above; empty with one seed.
    iterations, seconds
        Quasi-Newton steps and wall time of one training, on average.
    setting
        Task, activation, ridges and ``alpha``, which is ``samples/dim``.
    runs
        Each training.
    """

    train_mse: float
    objective: float
    m_k: float
    m_v: float
    q_k: float
    q_v: float
    m_kv: float
    m_vk: float
    q_kv: float
    bias: float
    errors: dict[str, float]
    iterations: float
    seconds: float
    dim: int
    samples: int
    seeds: int
    start: str
    setting: Setting
    runs: tuple[ErmRun, ...]

    def estimate(self, name: str) -> Estimate:
        """Return a number with its standard error over seeds.

        >>> from slrlab import SpikedSLR, simulate_erm
        >>> result = simulate_erm(SpikedSLR(2.0, 2), "linear", alpha=2.0, dim=60, ridge_k=1.0,
        ...     ridge_v=1.0, seeds=3)
        >>> result.estimate("m_v").error == result.errors["m_v"]
        True
        """
        return Estimate(getattr(self, name), self.errors.get(name, math.nan), self.seeds - 1.0)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the test risk of each training, and their mean with its standard error."""
        axes = axes_of(ax)
        look = mark_of(self.setting.activation_name)
        seeds = [run.seed for run in self.runs]
        risks = [run.test_risk for run in self.runs]
        errors = [run.test_risk_error for run in self.runs]
        axes.errorbar(seeds, risks, yerr=errors, fmt=look.marker, color=look.color, capsize=2)
        axes.axhline(self.test_risk, color=look.color, label=f"mean {self.risk}")
        low, high = self.test_risk - self.test_risk_error, self.test_risk + self.test_risk_error
        axes.axhspan(low, high, color=look.color, alpha=0.2, linewidth=0)
        axes.set(xlabel="seed", ylabel="test risk", xticks=seeds)
        axes.legend()
        return axes

    def __str__(self) -> str:
        return f"{self.setting}, D {self.dim}: test risk {self.risk}, {self.status}"


def simulate_erm(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    dim: int,
    ridge_k: float,
    ridge_v: float,
    seeds: int = 4,
    seed: int = 0,
    start: str = "informed",
    test_samples: int = 20_000,
    teacher: str = "normalised",
    dtype: str = "float32",
    token_law: TokenLaw | str = "gaussian",
    tolerance: float | None = None,
    max_steps: int = 2000,
    strict: bool = False,
    report: Report | None = None,
) -> ErmSimulation:
    r"""Train attention on ``N = αD`` simulated sequences, for several seeds, and test it.

    Minimises ``½Σ(y − σ(Xk/√D)ᵀXv/√D)² + ½ r_k|k|² + ½ r_v|v|²`` with L-BFGS on real data; a free
    bias (erf) is learned along with the vectors.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention.
    alpha, dim
        Training sequences per dimension, and dimensions. ``D = 10⁴/√α`` is the paper's size.
    ridge_k, ridge_v
        Ridge penalties ``>= 0``.
    seeds, seed
        Number of trainings, each with its own teachers and data, and the first of their seeds.
    start
        ``"informed"`` starts at the teachers, ``"random"`` at small random vectors.
    test_samples
        Fresh sequences that measure the risk of each training; 0 for none (the risk is nan).
    teacher
        ``"normalised"`` or ``"gaussian"``.
    dtype
        ``"float32"`` or ``"float64"`` tokens.
    token_law
        Law of the entries, as `slrlab.draw_dataset` takes it; the theory is about ``"gaussian"``.
    tolerance
        Training stops at ``|∇F| <= tolerance·|y|``; default 3e-4 for float32, 1e-6 for float64.
    max_steps
        Largest number of quasi-Newton steps.
    strict
        Raise `slrlab.ComputationError` if a training did not converge.
    report
        Called as ``report(done, total, label)`` while it runs.

    Returns
    -------
    ErmSimulation
        The trainings, and means over seeds with standard errors.

    Raises
    ------
    ValueError
        If a number is out of range, or the data would not fit into memory.

    Examples
    --------
    >>> from slrlab import SpikedSLR, simulate_erm
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> result = simulate_erm(task, "softmax", alpha=8.0, dim=200, ridge_k=0.4, ridge_v=0.8)
    >>> print(f"{result.test_risk:.1f}", result.status)
    0.5 sampled
    """
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Task, got {task!r}")
    chosen = trainable(activation)
    check_training(ridge_k, ridge_v, tolerance, max_steps)
    count = samples_of(alpha, dim)
    _checks.choice(start, "start", STARTS)
    test_samples = _checks.integer(test_samples, "test_samples", low=0)
    check_memory(task, dim, count, dtype)
    law = TokenLaw.of(token_law)
    seed, seeds = _checks.integer(seed, "seed", low=0), _checks.integer(seeds, "seeds")
    runs = []
    for number in range(seeds):
        own = seed + number
        if report is not None:
            report(number, seeds, f"training {number + 1} of {seeds}: drawing data")
        drawing: dict[str, Any] = {"teacher": teacher, "dtype": dtype, "token_law": law}
        data = draw_dataset(task, dim=dim, samples=count, seed=own, **drawing)
        assert data.teacher is not None
        trained = train(
            data,
            chosen,
            ridge_k=ridge_k,
            ridge_v=ridge_v,
            start=start_weights(start, data.teacher, chosen, own),
            tolerance=tolerance,
            max_steps=max_steps,
            watch=_watch(report, number, seeds),
        )
        drawn = data.teacher
        del data  # frees the memory for the tokens of the next seed
        fresh: dict[str, Any] = {"samples": test_samples, "seed": own, "token_law": law}
        risk = fresh_risk(task, chosen, trained.weights, drawn, **fresh)
        runs.append(_run(trained, drawn, risk, own))
    setting = Setting(task, chosen, count / dim, float(ridge_k), float(ridge_v))
    result = _average(runs, setting=setting, dim=dim, samples=count, start=start)
    return result.require() if strict else result


def samples_of(alpha: float, dim: int) -> int:
    """Return ``N = αD``, at least 1."""
    return max(1, round(_checks.positive(alpha, "alpha") * _checks.integer(dim, "dim", low=2)))


def training_bytes(task: Task, dim: int, alpha: float, dtype: str = "float32") -> int:
    """Return the memory that a training needs: its tokens, and 30 % more to draw them."""
    return int(1.3 * token_bytes(task, dim, samples_of(alpha, dim), dtype))


def trainable(activation: Activation | str) -> Activation:
    """Return the activation with a bias that training can use: softmax has none to learn.

    Raises
    ------
    TypeError, ValueError
        If the activation has no gradient to train it with.
    """
    chosen = make_activation(activation).without_idle_bias()
    activation_code(chosen)
    return chosen


def start_weights(start: str, teacher: Teacher, activation: Activation, seed: int) -> Weights:
    """Return the start of a training: the teachers, or small random vectors."""
    bias = activation.bias or 0.0
    if start == "informed":
        return Weights(teacher.keys, teacher.values, bias)
    k, v = np.random.default_rng((seed, 1)).normal(scale=SMALL, size=(2, teacher.dim))
    return Weights(k, v, bias)


def fresh_risk(
    task: Task,
    activation: Activation,
    weights: Weights,
    teacher: Teacher,
    *,
    samples: int,
    seed: int = 0,
    token_law: TokenLaw | str = "gaussian",
) -> Estimate:
    """Return the mean squared error on fresh sequences of the same teacher."""
    if samples == 0:
        return Estimate(math.nan, math.nan)
    losses = [
        (data.labels - predict(data, activation, weights)) ** 2
        for data in fresh_batches(task, teacher, samples=samples, seed=seed, token_law=token_law)
    ]
    return Estimate.of(np.concatenate(losses))


def _watch(report: Report | None, done: int, total: int) -> Watch | None:
    """Return a function that reports the steps of one training."""
    if report is None:
        return None

    def watch(step: int, value: float, gradient: float) -> None:
        state = f"step {step}, loss {value:.6g}, |grad| {gradient:.1e}"
        report(done, total, f"training {done + 1} of {total}: {state}")

    return watch


def _run(trained: Trained, teacher: Teacher, risk: Estimate, seed: int) -> ErmRun:
    kept = ("status", "train_mse", "gradient_norm", "iterations", "passes", "seconds")
    return ErmRun(
        seed=seed,
        test_risk=risk.value,
        test_risk_error=risk.error,
        objective=trained.objective / teacher.dim,
        bias=trained.weights.bias,
        overlaps=trained.weights.overlaps(teacher),
        **{name: getattr(trained, name) for name in kept},
    )


def _average(runs: Sequence[ErmRun], **given: Any) -> ErmSimulation:
    names = {"m_k": "m_kk", "m_v": "m_vv", "q_k": "q_kk", "q_v": "q_vv"}
    names |= {name: name for name in ("m_kv", "m_vk", "q_kv")}
    names |= {name: name for name in ("test_risk", "train_mse", "objective", "bias")}
    rows = [vars(run) | vars(run.overlaps) for run in runs]
    means = {name: Estimate.of([row[key] for row in rows]) for name, key in names.items()}
    errors = {name: mean.error for name, mean in means.items()} if len(runs) > 1 else {}
    worst = Status.worst(run.status for run in runs)
    return ErmSimulation(
        status=Status.SAMPLED if worst is Status.CONVERGED else worst,
        test_risk_error=errors.get("test_risk", runs[0].test_risk_error),
        errors=errors,
        iterations=float(np.mean([run.iterations for run in runs])),
        seconds=float(np.mean([run.seconds for run in runs])),
        seeds=len(runs),
        runs=tuple(runs),
        **given | {name: mean.value for name, mean in means.items()},
    )

r"""Online SGD of several heads in high dimension, as a flow of their overlaps.

A step of rate ``η`` takes the time ``η/D``. With ``m`` the overlaps of all vectors with all
teachers and ``R`` the products of their parts orthogonal to the teachers,

    dm/dt = −∂E/∂m,      dR_ab/dt = −(a⊥·∂E/∂b⊥ + b⊥·∂E/∂a⊥) + η N_ab,

as for one head (`slrlab.sgd_flow`); at rate 0 it is gradient flow. Independent of simulated steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.heads import BAYES_SOFTMAX, MultiHeadSLR, make_heads_activation
from slrlab.model.heads_path import HeadsOverlaps, HeadsPath
from slrlab.theory.heads.landscape import HeadsLandscape

_FAR = 100.0  # length of a vector, over √D, beyond which a path counts as diverged
_ACCURACY = (1e-3, 1e-5)  # relative and absolute errors of the solver, below those of the sample


def heads_flow(
    task: MultiHeadSLR,
    activation: Activation | str,
    *,
    start: HeadsOverlaps,
    rate: float = 0.0,
    time: float = 100.0,
    times: Sequence[float] | FloatArray | None = None,
    samples: int = 1 << 13,
    seed: int = 0,
    report: Report | None = None,
) -> HeadsPath:
    r"""Integrate the overlaps of several heads under online SGD, in the limit ``D → ∞``.

    Parameters
    ----------
    task, activation
        Task, and attention of each head or ``"bayes-softmax"``; free biases are learned, one for
        each head, from 0.
    start
        Overlaps at the start; their number of rows is twice that of the heads.
    rate
        ``η >= 0`` of `slrlab.heads_sgd`; 0 is gradient flow.
    time, times
        End of the path, and times that are kept (61 of them if None).
    samples, seed
        Number of sequences of the sample that stands for the population, and its seed.
    report
        Called as ``report(done, total, label)``.

    Returns
    -------
    HeadsPath
        Overlaps of all heads and the risk at the times that are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from slrlab import HeadsOverlaps, MultiHeadSLR, heads_flow
    >>> start = HeadsOverlaps(0.3 * np.eye(4), 0.1 * np.eye(4))
    >>> path = heads_flow(MultiHeadSLR(4.0, 3, directions=2), "softmax", start=start, time=5.0)
    >>> bool(path.risk[-1] < path.risk[0])
    True
    """
    chosen = make_heads_activation(activation)
    rate, time = _checks.non_negative(rate, "rate"), _checks.positive(time, "time")
    heads = _checked_start(start, task)
    landscape = HeadsLandscape.draw(task, chosen, heads=heads, samples=samples, seed=seed)
    kept = np.linspace(0.0, time, 61) if times is None else np.asarray(times, dtype=float)
    path = _Path(landscape, rate, time, report)
    bias = np.full(heads, 0.0 if chosen is None else chosen.bias or 0.0)
    state = path.packed(start.m, start.residuals, bias)
    reached, states, status = path.follow(state, kept)
    points = [path.unpacked(one) for one in states]
    slopes = [landscape(path.vectors(m, R), b) for m, R, b in points]
    K = task.directions
    m = np.array([one for one, _, _ in points])
    return HeadsPath(
        status=status,
        times=reached,
        keys=m[:, :heads, :K],
        values=m[:, heads:, K:],
        crossed=np.maximum(_largest(m[:, :heads, K:]), _largest(m[:, heads:, :K])),
        q=np.array([one @ one.T + R for one, R, _ in points]),
        bias=np.array([landscape.biases_of(path.vectors(*p[:2]), p[2]) for p in points]),
        risk=np.array([slope.risk for slope in slopes]),
        risk_error=np.array([slope.error for slope in slopes]),
        method="gradient flow" if rate == 0.0 else "flow of online sgd",
        rate=rate,
        activation=BAYES_SOFTMAX if chosen is None else chosen.name,
        task=task,
    )


def _largest(m: FloatArray) -> FloatArray:
    return np.asarray(np.abs(m).max(axis=(1, 2)))


def _checked_start(start: HeadsOverlaps, task: MultiHeadSLR) -> int:
    """Return the number of heads of a start."""
    rows = int(np.shape(start.m)[0])
    fits = np.shape(start.m) == (rows, 2 * task.directions) and np.shape(start.q) == (rows, rows)
    if not fits or rows % 2 or not (np.isfinite(start.m).all() and np.isfinite(start.q).all()):
        shapes = f"m {np.shape(start.m)} and q {np.shape(start.q)}"
        accepted = f"finite overlaps m (2H, {2 * task.directions}) and q (2H, 2H)"
        _checks.fail("start", accepted, shapes)
    return rows // 2


class _Path:
    """The state ``(m, lower triangle of R, biases)`` and its velocity."""

    def __init__(
        self, landscape: HeadsLandscape, rate: float, end: float, report: Report | None
    ) -> None:
        self.landscape, self.rate, self.end, self.report = landscape, rate, end, report
        self.rows, self.columns = 2 * landscape.heads, 2 * landscape.task.directions
        self.lower = np.tril_indices(self.rows)

    def packed(self, m: FloatArray, R: FloatArray, bias: FloatArray) -> FloatArray:
        return np.concatenate([m.ravel(), R[self.lower], bias])

    def unpacked(self, state: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        size = self.rows * self.columns
        triangle = state[size : size + self.lower[0].size]
        R = np.zeros((self.rows, self.rows))
        R[self.lower] = triangle
        R = R + np.tril(R, -1).T
        return state[:size].reshape(self.rows, -1), R, state[size + triangle.size :]

    def vectors(self, m: FloatArray, R: FloatArray) -> FloatArray:
        """Return vectors with these overlaps; a residual that is not a covariance is cut.

        Their free parts are the symmetric root of ``R``, which is continuous in ``R``: a sample has
        preferred directions, so that a basis that jumps would make its risk jump, too.
        """
        sizes, axes = np.linalg.eigh(R)
        root = (axes * np.sqrt(np.maximum(sizes, 0.0))) @ axes.T
        return np.concatenate([m, root], axis=1)

    def velocity(self, time: float, state: FloatArray) -> FloatArray:
        if self.report is not None:
            self.report(int(100.0 * time / self.end), 100, f"heads: time {time:.4g}")
        m, R, bias = self.unpacked(state)
        vectors = self.vectors(m, R)
        slope = self.landscape(vectors, bias)
        free, along = vectors[:, self.columns :], slope.vectors[:, self.columns :]
        cross = free @ along.T
        growth = self.rate * slope.noise - (cross + cross.T)
        drift = -slope.biases if self.landscape.learns_bias else np.zeros_like(bias)
        return self.packed(-slope.vectors[:, : self.columns], growth, drift)

    def follow(self, state: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray, Status]:
        """Return the times that were reached, the states there and how it ended."""
        from scipy.integrate import solve_ivp

        def escaped(_: float, y: FloatArray) -> float:
            m, R, _bias = self.unpacked(y)
            return _FAR - math.sqrt(max(0.0, float(np.max(np.diag(R) + (m**2).sum(axis=1)))))

        escaped.terminal = True  # type: ignore[attr-defined]
        solver: dict[str, Any] = {"rtol": _ACCURACY[0], "atol": _ACCURACY[1], "events": escaped}
        done = solve_ivp(self.velocity, (0.0, self.end), state, t_eval=times, **solver)
        status = Status.DIVERGED if done.status == 1 else Status.SAMPLED
        if done.status < 0:
            status = Status.FAILED
        return np.asarray(done.t), np.asarray(done.y.T), status

"""Compiled code made ready before it is needed.

Numba compiles a kernel at its first call, for tens of seconds, and caches it on disk. Processes
that reach a kernel at the same time all compile it; one that runs ahead of them does it once.
"""

from __future__ import annotations

from typing import Any

from slrlab.experiments.descent.flows import compare_descent, compare_sgd
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SpikedSLR
from slrlab.retrieval.capacity import EVALUATIONS, train_capacity
from slrlab.simulation.message_passing.amp import run_amp
from slrlab.simulation.training.erm import simulate_erm
from slrlab.theory.erm import erm_theory


def compile_kernels() -> None:
    """Call every compiled kernel once, at a small size, but those of several heads.

    Only two figures of the full profile need these.
    """
    task = SpikedSLR(1.0, LengthLaw.of(2))
    small: dict[str, Any] = {"dim": 8, "test_samples": 10}
    ridges: dict[str, Any] = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}
    options: dict[str, Any] = {"time": 0.1, "record": 2, **small}
    erm_theory(task, "softmax", tolerance=0.1, **ridges)
    simulate_erm(task, "softmax", seeds=1, **ridges, **small)
    run_amp(task, alpha=4.0, seeds=1, steps=1, **small)
    compare_descent(task, "softmax", rate=0.05, batch=2, **options)
    compare_sgd(task, "softmax", rate=0.05, **options)
    train_capacity(pairs=2, key_size=2, max_steps=EVALUATIONS)

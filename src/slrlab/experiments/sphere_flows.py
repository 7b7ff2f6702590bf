"""Projected descent in ``R^D`` beside the flow on the sphere, at the same times."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from slrlab import _checks
from slrlab.experiments.flows import FlowComparison, Options, compare_paths
from slrlab.model.activations import Activation
from slrlab.model.sphere import Sphere
from slrlab.model.tasks import Task
from slrlab.simulation.descent.stochastic import online_sgd
from slrlab.theory.landscape.risk import Landscape
from slrlab.theory.landscape.sphere import ERF_ATTENTION, sphere_flow, sphere_start


def compare_sphere(
    task: Task,
    activation: Activation | str = ERF_ATTENTION,
    *,
    dim: int,
    sphere: Sphere,
    rate: float = 0.01,
    batch: int | None = None,
    landscape: Landscape | None = None,
    **options: Unpack[Options],
) -> FlowComparison:
    r"""Follow projected descent in ``R^D`` on fresh sequences, and the flow on the sphere.

    The training of Marion et al. (2024): keys and values have the lengths of ``sphere``.

    Parameters
    ----------
    sphere
        Lengths of keys and values.
    start
        ``"random"``, ``"manifold"`` or a point, as for `slrlab.sphere_flow`.
    task, activation, dim, rate, batch, landscape, options
        As for `compare_descent`; there is no ``size`` and no ``bias``.

    Raises
    ------
    ValueError
        As `compare_descent`.

    Examples
    --------
    >>> from slrlab import MarionSLR, Sphere, compare_sphere
    >>> task, sphere = MarionSLR(signal=20.0, length=4), Sphere(0.3)
    >>> both = compare_sphere(task, dim=40, sphere=sphere, time=1.0, start="manifold", rate=0.02)
    >>> both.worst < 0.15
    True
    """
    dim, rate = _checks.integer(dim, "dim", low=4), _checks.positive(rate, "rate")
    batch = dim + dim % 2 if batch is None else _checks.integer(batch, "batch", low=2)
    for name in ("size", "bias"):
        if options.get(name) is not None:
            raise ValueError(f"{name} must be left out on the sphere, got {options.get(name)}")
    begin = options.get("start", "random")
    directions = sphere_start(
        begin, dim if isinstance(begin, str) else None, options.get("seed", 0)
    )
    options["start"] = [sphere.scale * directions[0], directions[1]]
    descend = partial(online_sgd, rate=rate * dim, batch=batch, mirrored=True, sphere=sphere)
    follow = partial(sphere_flow, sphere=sphere, landscape=landscape)
    return compare_paths(task, activation, descend, follow, dim=dim, rate=rate, **options)

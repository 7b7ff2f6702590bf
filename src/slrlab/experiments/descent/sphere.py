"""Projected descent in ``R^D`` beside the flow on the sphere, at the same times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import DataFrame, FloatArray, Report
from slrlab.experiments.descent.flows import FlowComparison, Options, compare_paths, place_start
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import OverlapPath
from slrlab.model.sphere import Sphere
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.descent.stochastic import online_sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.risk import Landscape, risk_and_gradient
from slrlab.theory.landscape.sphere import ERF_ATTENTION, STARTS, sphere_flow, sphere_start

_STILL = 1e-12  # gradient below which a flow may stop before its last time


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

    Returns
    -------
    FlowComparison
        The flow, the descents and their differences, quantity by quantity.

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
            raise ValueError(f"{name} must not be given on the sphere, got {options.get(name)}")
    begin = options.get("start", "random")
    directions = sphere_start(
        begin, dim if isinstance(begin, str) else None, options.get("seed", 0)
    )
    options["start"] = [sphere.scale * directions[0], directions[1]]
    descend = partial(online_sgd, rate=rate * dim, batch=batch, mirrored=True, sphere=sphere)
    follow = partial(sphere_flow, sphere=sphere, landscape=landscape)
    return compare_paths(task, activation, descend, follow, dim=dim, rate=rate, **options)


@dataclass(frozen=True)
class SphereTraining(Result):
    """Training on the sphere from several starts, as in the experiments of Marion et al. (2024).

    Attributes
    ----------
    status
        ``sampled``: all flows and descents reached the end.
    flows
        The flow from each start.
    runs
        Projected descent in ``R^dim`` from the same start; none if no rate was given.
    oracle_risk
        Risk of ``k = λk*``, ``v = v*`` at the last ``λ``.
    dim, sphere
        Dimension of the starts, and the lengths of the vectors.
    """

    flows: tuple[Flow, ...]
    runs: tuple[Trajectory, ...]
    oracle_risk: float
    dim: int
    sphere: Sphere

    @property
    def ends(self) -> dict[str, int]:
        """How many flows end matched, mismatched or otherwise."""
        kinds = [flow.minimum for flow in self.flows]
        return {kind: kinds.count(kind) for kind in ("matched", "mismatched", "other")}

    def last(self, name: str, *, simulated: bool = False) -> Estimate:
        """Return the mean over starts of the size of a `unit_overlaps` at the end of the paths."""
        paths: tuple[OverlapPath, ...] = self.runs if simulated else self.flows
        return Estimate.of([abs(float(unit_overlaps(path)[name][-1])) for path in paths])

    @property
    def gaps(self) -> dict[str, Estimate]:
        """Descent minus flow at the end, for the size of each overlap, averaged over starts."""
        ends = [
            [{n: abs(float(x[-1])) for n, x in unit_overlaps(path).items()} for path in pair]
            for pair in zip(self.runs, self.flows, strict=False)
        ]
        return {name: Estimate.of([one[name] - two[name] for one, two in ends]) for name in UNIT}

    def to_frame(self) -> DataFrame:
        """Return one row for each start, method and time."""
        import pandas as pd

        tables = []
        sides: dict[str, tuple[OverlapPath, ...]] = {"flow": self.flows, "descent": self.runs}
        for method, paths in sides.items():
            for start, path in enumerate(paths):
                risk = getattr(path, "risk" if method == "flow" else "loss")
                columns = {"method": method, "start": start, "times": path.times, "risk": risk}
                tables.append(pd.DataFrame(columns | unit_overlaps(path)))
        return pd.concat(tables, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return ends, mean overlaps with their errors, and risks as JSON-ready values."""
        shown: dict[str, Any] = {"status": str(self.status), **self.ends}
        for name in UNIT:
            shown |= {name: self.last(name).value, f"{name}_error": self.last(name).error}
            if self.runs:
                descent = self.last(name, simulated=True)
                shown |= {f"{name}_descent": descent.value, f"{name}_descent_error": descent.error}
        risk = Estimate.of([flow.risk[-1] for flow in self.flows])
        shown |= {"risk": risk.value, "risk_error": risk.error, "oracle_risk": self.oracle_risk}
        shown |= {"dim": self.dim, "scale": self.sphere.scale, "decay": self.sphere.decay}
        return {name: plain(value) for name, value in shown.items()}

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {kind}" for kind, count in self.ends.items())
        return f"{len(self.flows)} starts in {self.dim} dimensions: {ends}, {self.status}"


UNIT = ("kappa", "nu", "theta", "eta", "rho")
"""Overlaps of directions: ``k̂·k*``, ``v̂·v*``, ``v̂·k*``, ``k̂·v*`` and ``k̂·v̂``."""


def unit_overlaps(path: OverlapPath) -> dict[str, FloatArray]:
    """Return the overlaps of directions along a path, with the letters of Marion et al."""
    k, v = np.sqrt(path.q_kk), np.sqrt(path.q_vv)
    columns = (path.m_kk / k, path.m_vv / v, path.m_vk / v, path.m_kv / k, path.q_kv / (k * v))
    return dict(zip(UNIT, columns, strict=True))


def sphere_training(
    task: Task,
    activation: Activation | str = ERF_ATTENTION,
    *,
    scale: float,
    decay: float = 0.0,
    dim: int,
    start: str = "random",
    time: float = 80.0,
    record: int = 61,
    rate: float | None = None,
    batch: int = 5,
    seeds: int = 30,
    seed: int = 0,
    report: Report | None = None,
) -> SphereTraining:
    r"""Follow training on the sphere from several starts, with flows and, if asked, by descent.

    Parameters
    ----------
    task, activation
        Task and attention; in the paper ``signal = dim/2``.
    scale, decay
        Length ``λ/(1 + decay·t)`` of the keys, as of a `slrlab.Sphere`.
    dim
        Dimension ``>= 4`` of the random starts, and of the tokens of a descent.
    start
        ``"random"`` (uniform on the spheres) or ``"manifold"`` (the same on M).
    time, record
        End of the paths, and number of times that are kept.
    rate, batch
        Step of a projected stochastic descent, which takes the time ``rate``, and fresh sequences
        a step; no descent if the rate is None.
    seeds, seed
        Number of starts, and the first seed.
    report
        Called as ``report(done, total, label)``.

    Returns
    -------
    SphereTraining
        The flow and, with a ``rate``, the descent from each start, and where they end.

    Examples
    --------
    >>> from slrlab import MarionSLR, sphere_training
    >>> task = MarionSLR(signal=200.0, length=10)
    >>> done = sphere_training(task, scale=1.0, decay=0.025, dim=400, time=480.0, seeds=2)
    >>> done.ends
    {'matched': 2, 'mismatched': 0, 'other': 0}
    """
    sphere, _ = Sphere(scale, decay), _checks.choice(start, "start", STARTS)
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    record, time = _checks.integer(record, "record", low=2), _checks.positive(time, "time")
    step = None if rate is None else _checks.positive(rate, "rate") * dim
    flows, runs = [], []
    for number in range(seed, seed + seeds):
        if report is not None:
            report(number - seed, seeds, "training on the sphere")
        own: dict[str, Any] = {"sphere": sphere, "time": time, "seed": number}
        kept: dict[str, Any] = {"times": np.linspace(0.0, time, record), "tolerance": _STILL}
        flows.append(sphere_flow(task, activation, start=start, dim=dim, **own, **kept))
        if step is None:
            continue
        k, v = sphere_start(start, dim, number)
        own["teacher"] = Teacher.draw(dim, seed=number)
        own["start"] = place_start(sphere.scale * k, v, own["teacher"], seed=number)
        own |= {"dim": dim, "rate": step, "batch": batch, "record": record}
        runs.append(online_sgd(task, activation, **own))
    aligned = ([sphere.at(time), 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0])
    statuses = [Status.SAMPLED, *(run.status for run in runs)]
    statuses += [flow.status for flow in flows if not flow.status.usable]
    return SphereTraining(
        status=Status.worst(statuses),
        flows=tuple(flows),
        runs=tuple(runs),
        oracle_risk=risk_and_gradient(task, activation, aligned).risk,
        dim=dim,
        sphere=sphere,
    )

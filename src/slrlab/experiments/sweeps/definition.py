"""A sweep: settings times what to compute, from a TOML file or from Python.

    name = "learning curve"
    compute = "optimal-ridge"
    seeds = 2

    [settings]
    task = "spiked"
    length = 3

    [grid]
    signal = [1.0, 2.0, 5.0]
    alpha = [1, 2, 4, 8]
    activation = ["softmax", "linear"]

Instead of (or besides) a grid, ``[[points]]`` tables list settings one by one. Independent of how
points are computed or kept.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from slrlab import _checks
from slrlab.experiments.sweeps.computations import COMPUTATIONS, Computation

KEYS = ("name", "compute", "seeds", "settings", "grid", "points")


@dataclass(frozen=True)
class Point:
    """One computation at definite settings and seed; ``key`` is what it is known by."""

    compute: str
    settings: dict[str, Any]
    seed: int = 0

    @cached_property
    def key(self) -> str:
        """Digest of the whole point: another setting is another point."""
        whole = json.dumps([self.compute, self.settings, self.seed], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def computation(self) -> Computation:
        """What is computed."""
        return COMPUTATIONS[self.compute]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{self.compute}: {shown}, seed {self.seed}"


@dataclass(frozen=True)
class Sweep:
    """A grid or a list of settings, times seeds.

    Parameters
    ----------
    compute
        Name of a computation, such as ``population``; ``slrlab sweep --help`` lists all.
    settings
        Settings that all points share.
    grid
        Settings with a list of values each; every combination is a point.
    points
        Settings one by one; they override those shared.
    seeds
        Number of seeds, from 0 on, or a list of seeds; computations without chance use one.
    name
        A title.

    Examples
    --------
    >>> sweep = Sweep("population", grid={"signal": [1.0, 2.0], "activation": ["softmax", "erf"]})
    >>> len(sweep.expand())
    4
    """

    compute: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ()
    seeds: int | Sequence[int] = 1
    name: str = "sweep"

    def __post_init__(self) -> None:
        _checks.choice(self.compute, "compute", COMPUTATIONS)
        for name, values in self.grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ValueError(f"grid {name} must be a list of values, got {values!r}")
            if name in self.settings:
                raise ValueError(f"setting {name} must be shared or in the grid, got both")

    def expand(self) -> list[Point]:
        """Return all points, checked, each once."""
        computation = COMPUTATIONS[self.compute]
        if isinstance(self.seeds, Sequence):
            seeds = [_checks.integer(seed, "seeds", low=0, high=2**63 - 1) for seed in self.seeds]
        else:
            seeds = list(range(_checks.integer(self.seeds, "seeds")))
        if not seeds:
            raise ValueError("seeds must be a number or a list of seeds, got an empty list")
        if not computation.seeded:
            seeds = [0]
        count = math.prod(map(len, self.grid.values())) + len(self.points)
        _checks.integer(count * len(seeds), "number of points")
        own = list(map(dict, self.points))
        if self.grid or not own:
            combinations = itertools.product(*self.grid.values())
            own += [dict(zip(self.grid, values, strict=True)) for values in combinations]
        settings = [computation.complete(dict(self.settings) | given) for given in own]
        points = [Point(self.compute, whole, seed) for whole in settings for seed in seeds]
        return list({point.key: point for point in points}.values())


def read_sweep(path: Path | str) -> Sweep:
    r"""Read a sweep from a TOML file.

    Parameters
    ----------
    path
        The TOML file.

    Returns
    -------
    Sweep
        The sweep, which `run_sweep` computes.

    Raises
    ------
    ValueError
        If the file is not TOML, or holds an unknown key or a value of the wrong kind.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from slrlab import read_sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "curve.toml")
    ...     _ = path.write_text('compute = "population"\n[grid]\nsignal = [1.0, 2.0]')
    ...     read_sweep(path).grid
    {'signal': [1.0, 2.0]}
    """
    given = Path(path)
    try:
        content = tomllib.loads(given.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"sweep must be a TOML file, got {given}: {error}") from None
    for key in content:
        _checks.choice(key, f"key of {given.name}", KEYS)
    if "compute" not in content:
        raise ValueError(f"compute must be one of {', '.join(COMPUTATIONS)}, got nothing")
    for key in ("settings", "grid"):
        if not isinstance(content.get(key, {}), dict):
            raise ValueError(f"{key} must be a table [{key}], got {content[key]!r}")
    listed = content.get("points", [])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise ValueError(f"points must be tables [[points]], got {listed!r}")
    return Sweep(**({"name": given.stem} | content))

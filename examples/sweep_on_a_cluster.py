"""
A sweep on a cluster
====================

Compute a grid of settings on the workers of a Dask cluster, stop, and go on: what is in the store
is not computed again. The cluster here has two workers on this machine; with
`dask-jobqueue <https://jobqueue.dask.org>`_ the same lines use the nodes of SLURM.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from distributed import LocalCluster

from slrlab import Store, Sweep, run_sweep

# %%
# The settings of all points, and those that vary.

sweep = Sweep(
    "population",
    settings={"task": "spiked", "length": 10},
    grid={"signal": [1.0, 2.0, 4.0, 8.0, 16.0], "activation": ["softmax", "erf", "linear"]},
)

# %%
# Workers are processes of their own, so a script starts them below ``__main__``. The store is a
# SQLite file, written point by point.

if __name__ == "__main__":
    path = Path(tempfile.mkdtemp()) / "store.sqlite"
    options = {"host": "127.0.0.1", "dashboard_address": None, "threads_per_worker": 1}
    with LocalCluster(n_workers=2, **options) as cluster:
        first = run_sweep(sweep, path, cluster=cluster.scheduler_address)
        again = run_sweep(sweep, path, cluster=cluster.scheduler_address)
    print(f"{first.points} points, {first.computed} computed, {first.failed} failed")
    print(f"second run: {again.computed} computed")

    with Store(path) as store:
        table = store.frame()
    risks = table.pivot(index="signal", columns="activation", values="value")
    print(risks.round(4))

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    risks.plot(ax=axes, logx=True, marker="o", ylabel="minimal risk")

"""Sweeps that never lose a point: definition, store, executors."""

from slrlab.experiments.sweeps.definition import Sweep, read_sweep
from slrlab.experiments.sweeps.run import SweepSummary, run_sweep
from slrlab.experiments.sweeps.store import Store

__all__ = ["Store", "Sweep", "SweepSummary", "read_sweep", "run_sweep"]

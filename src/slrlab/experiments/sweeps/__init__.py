"""Sweeps that keep every finished point: definition, computations, run."""

from slrlab.experiments.running.store import Store
from slrlab.experiments.sweeps.definition import Sweep, read_sweep
from slrlab.experiments.sweeps.run import SweepSummary, run_sweep

__all__ = ["Store", "Sweep", "SweepSummary", "read_sweep", "run_sweep"]

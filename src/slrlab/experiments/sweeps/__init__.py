"""Sweeps that never lose a point: definition, store, executors."""

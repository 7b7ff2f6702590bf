"""Comparison of theory and simulation, claims and sweeps."""

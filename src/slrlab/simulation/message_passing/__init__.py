"""Approximate message passing on simulated data."""

"""Simulated training of several heads on tokens in ``R^D``."""

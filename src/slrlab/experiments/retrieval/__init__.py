"""Trained sequence models and the capacity of one layer, beside predictions."""

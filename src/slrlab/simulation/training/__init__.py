"""Attention trained on a dataset: objective, gradient, optimiser, several seeds."""

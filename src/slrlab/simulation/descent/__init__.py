"""Gradient descent and stochastic gradient descent on simulated data, step by step."""

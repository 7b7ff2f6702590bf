"""Small attention models that are trained: benchmarks of retrieval. Training needs PyTorch.

This package must not know the theory, nor the simulated training of `slrlab.simulation`.
"""

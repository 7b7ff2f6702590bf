"""Training with PyTorch, which is imported at its first use."""

from __future__ import annotations

import math
import time

import numpy as np

from _training import GOAL, LENGTH, Run, lbfgs
from slrlab import Dataset, Weights
from slrlab._types import FloatArray


class Torch:
    """The joint objective with PyTorch matrix products; the gradient by hand or by autograd."""

    def __init__(self, data: Dataset, ridges: tuple[float, float], by_hand: bool) -> None:
        import torch

        self.torch, self.ridges, self.by_hand = torch, ridges, by_hand
        self.dim, self.root = data.dim, math.sqrt(data.dim)
        self.tokens = torch.from_numpy(data.tokens)
        self.labels = torch.from_numpy(data.labels)
        self.unit = float(np.linalg.norm(data.labels))
        self.norm, self.theta, self.passes = math.inf, np.empty(0), 0

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        torch, scaled = self.torch, theta.reshape(2, -1).T / self.root
        vectors = torch.from_numpy(scaled.astype(np.float32)).requires_grad_(not self.by_hand)
        fields = (self.tokens @ vectors).double().reshape(-1, LENGTH, 2)
        sigma, z = torch.softmax(fields[..., 0], 1), fields[..., 1]
        answer = (sigma * z).sum(1)
        rho = self.labels - answer
        loss = 0.5 * (rho @ rho)
        if self.by_hand:
            pull = -rho[:, None] * sigma
            both = torch.stack([pull * (z - answer[:, None]), pull])
            rows = both.reshape(2, -1).float() @ self.tokens
        else:
            loss.backward()
            rows = vectors.grad.T
        gradient = rows.double().numpy().ravel() / self.root
        weights = np.repeat(self.ridges, self.dim)
        gradient = gradient + weights * theta
        self.norm = float(np.linalg.norm(gradient)) / self.unit
        self.theta, self.passes = theta.copy(), self.passes + 2  # forward and backward
        return float(loss.detach()) + 0.5 * float(weights @ theta**2), gradient


def with_torch(data: Dataset, ridges: tuple[float, float], start: Weights, by_hand: bool) -> Run:
    began = time.perf_counter()
    function = Torch(data, ridges, by_hand)
    vector = start.to_vector(learn_bias=False)
    steps = lbfgs(function, vector, lambda: function.norm <= GOAL)
    seconds = time.perf_counter() - began
    return Run(function.theta, steps, function.passes, function.passes, seconds)

"""Samples of the random fields of trained attention, by randomised QMC.

A sample holds standard normals only; the fields ``ω`` follow from them and the order parameters,
so one sample serves a whole fixed-point search and makes its map smooth. The relevant token comes
first. Blocks are independent scrambles: the standard errors come from their differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.tasks import Task
from slrlab.numerics.qmc import normal_replicates

BLOCKS = 8


@dataclass(frozen=True)
class FieldGroup:
    """Samples of one length: arrays of shape ``(blocks, size, length)`` and their weight."""

    weight: float
    chi_base: FloatArray
    n_k: FloatArray
    n_z: FloatArray
    n_y: FloatArray

    @property
    def length(self) -> int:
        """Number of tokens of each sequence."""
        return int(self.n_k.shape[-1])


@dataclass(frozen=True)
class FieldSample:
    """All groups; ``gaussian`` says that given the location the key scores are Gaussian.

    Then ``chi_base`` is their mean and ``n_k`` stands for field and teacher together, which saves
    ``L`` dimensions; else ``chi_base`` is the teacher's scores.
    """

    groups: tuple[FieldGroup, ...]
    gaussian: bool

    @property
    def size(self) -> int:
        """Number of sequences."""
        return sum(group.n_y.size for group in self.groups)


def draw_fields(task: Task, log2_size: int, seed: int = 0) -> FieldSample:
    """Draw `BLOCKS` blocks of about ``2**log2_size`` sequences each."""
    gaussian = task.gaussian_shift is not None
    groups = []
    for length, weight, log2_share in task.length.shares(log2_size):
        dimension = 2 * length + 1 + (0 if gaussian else length + 1)
        normals = np.stack(list(normal_replicates(dimension, log2_share, BLOCKS, (seed, length))))
        n_y, normals = normals[..., 0], normals[..., 1:]
        n_k, n_z = normals[..., :length], normals[..., length : 2 * length]
        if task.gaussian_shift is not None:
            chi_base = np.zeros_like(n_k)
            chi_base[..., 0] = task.gaussian_shift
        else:
            uniforms = special.ndtr(normals[..., 2 * length :]).reshape(-1, length + 1)
            chi_base = task.scores_from_uniforms(uniforms).reshape(n_k.shape)
        arrays = (np.ascontiguousarray(array) for array in (chi_base, n_k, n_z, n_y))
        groups.append(FieldGroup(weight, *arrays))
    return FieldSample(tuple(groups), gaussian)

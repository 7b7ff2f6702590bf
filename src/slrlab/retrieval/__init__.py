"""Small attention models that are trained: benchmarks of retrieval. Training needs PyTorch.

Benchmarks and the test of associative capacity need only NumPy and Numba. This package must not
know the theory, nor the simulated training of `slrlab.simulation`.
"""

from slrlab.retrieval.capacity import CapacityRun, capacity_floor, train_capacity
from slrlab.retrieval.mixers import MIXERS, make_mixer
from slrlab.retrieval.model import Model
from slrlab.retrieval.tasks import Batch, MarkovTask, MaxTask, NeedleTask, RecallTask
from slrlab.retrieval.text import TextTask, find_text
from slrlab.retrieval.training import (
    TrainedModel,
    Training,
    evaluate,
    head_scores,
    head_weights,
    train,
)

__all__ = [
    "MIXERS",
    "Batch",
    "CapacityRun",
    "MarkovTask",
    "MaxTask",
    "Model",
    "NeedleTask",
    "RecallTask",
    "TextTask",
    "TrainedModel",
    "Training",
    "capacity_floor",
    "evaluate",
    "find_text",
    "head_scores",
    "head_weights",
    "make_mixer",
    "train",
    "train_capacity",
]

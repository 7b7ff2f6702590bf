"""The few named errors of the package; wrong arguments raise plain ``ValueError``/``TypeError``."""

from __future__ import annotations


class SlrlabError(Exception):
    """Base class of every error that is not a wrong argument."""


class ComputationError(SlrlabError):
    """A computation did not reach its accuracy, and the caller had set ``strict=True``."""


class StoreError(SlrlabError):
    """A file of results is damaged, of another kind, or cannot be read or written."""


class ClusterError(SlrlabError):
    """A cluster does not answer, or a worker process died repeatedly."""


class TooLargeError(SlrlabError, ValueError, MemoryError):
    """A dataset does not fit into the free memory."""


class NotFittedError(SlrlabError, ValueError, AttributeError):
    """A method of an estimator was called before ``fit``."""


class ConvergenceWarning(UserWarning):
    """Training ended without a minimum; the status of the estimator says how."""


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged: what it held is computed again."""

"""The few named errors of the package; wrong arguments raise plain ``ValueError``/``TypeError``."""

from __future__ import annotations


class SlrlabError(Exception):
    """Base class of every error that is not a wrong argument."""


class ComputationError(SlrlabError):
    """A computation ended without a usable number and the caller asked for ``strict=True``."""


class StoreError(SlrlabError):
    """A file of results is damaged, of another kind, or cannot be read or written."""


class ClusterError(SlrlabError):
    """A cluster does not answer, or a worker process died again and again."""


class TooLargeError(SlrlabError, ValueError, MemoryError):
    """A dataset does not fit into the memory that is free here and now."""


class NotFittedError(SlrlabError, ValueError, AttributeError):
    """An estimator was asked for an answer before ``fit``."""


class ConvergenceWarning(UserWarning):
    """Training ended without a minimum; the status of the estimator says how."""

"""One BLAS thread while many small matrices are multiplied: more would only wait for each other."""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import local
from typing import Any


class _OneBlasThread(ContextDecorator, local):
    """A limit that is set on the first entry of a thread and lifted on its last exit.

    An inner entry costs nothing, the first one some microseconds. BLAS has one number of threads
    for the whole process: where several threads of Python overlap, threadpoolctl lets the first of
    them set it.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        if self._depth == 0:
            self._limit = _libraries().limit(limits=1, user_api="blas").__enter__()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._limit.__exit__(*error)


@cache  # looking for the libraries takes a millisecond
def _libraries() -> Any:
    # SciPy has a library of its own, loaded together with this module
    import scipy.special  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


one_blas_thread = _OneBlasThread()
"""Use as ``with one_blas_thread:`` or, for a whole function, as a decorator."""

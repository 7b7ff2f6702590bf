"""Where calls run: on an existing Dask cluster. Independent of what is computed."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from slrlab._errors import ClusterError
from slrlab._machine import cores
from slrlab.experiments.running.executors import Outcome, attempt

_SHARE = 0.8  # share of a worker's memory for its call; Dask ends a worker that uses all
_AHEAD = 2  # calls sent to each worker, so that none waits for the next
_LOOK = 2.0  # seconds for which a list of the workers is valid
_turn = threading.Lock()


def _alone(function: Callable[..., Any], *given: Any) -> Any:
    """Run a call in a Dask worker: one at a time, with the threads that the worker has."""
    from distributed import get_worker

    with _turn:
        threads = get_worker().state.nthreads
        if "numba" in sys.modules:
            import numba

            numba.set_num_threads(min(threads, cores()))
        else:
            os.environ["NUMBA_NUM_THREADS"] = str(threads)
        return attempt(function, given)


class Cluster:
    """Runs calls on an existing Dask cluster; its workers need nothing but this package.

    A worker runs one call at a time, with as many threads as it has. Workers may come and go: Dask
    starts the calls of a lost worker again by itself, a few times.

    Raises
    ------
    ClusterError
        If the extra is not installed or nothing answers at the address.
    """

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError(
                "a cluster needs the extra cluster: pip install 'slrlab[cluster]'"
            ) from None
        try:
            self._client = Client(address, timeout=timeout)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ClusterError(f"no cluster answers at {address} ({reason})") from None
        self._address = address
        self._running: dict[Any, str] = {}
        self._asked = -math.inf
        self._limits: list[int] = []

    def _memory_limits(self) -> list[int]:
        """Return the memory of each worker, from a list that is renewed every few seconds."""
        if time.monotonic() - self._asked > _LOOK:
            with self._connected():
                workers = self._client.scheduler_info(n_workers=-1).get("workers", {})
            self._limits = [int(item["memory_limit"] or sys.maxsize) for item in workers.values()]
            self._asked = time.monotonic()
        return self._limits

    @property
    def slots(self) -> int:
        return _AHEAD * len(self._memory_limits())

    @property
    def own_memory(self) -> int:
        return int(_SHARE * min(self._memory_limits(), default=sys.maxsize))

    def submit(self, key: str, function: Callable[..., Any], *given: Any) -> None:
        with self._connected():
            self._running[self._client.submit(_alone, function, *given, pure=False)] = key

    def finished(self, timeout: float) -> list[Outcome]:
        from distributed import wait as wait_for

        ended = []
        with self._connected():
            try:
                wait_for(list(self._running), timeout=timeout, return_when="FIRST_COMPLETED")
            except TimeoutError:
                return []
            for future in [future for future in self._running if future.done()]:
                key, failed = self._running.pop(future), future.status == "error"
                answer = (None, future.exception(), 0.0) if failed else future.result()
                ended.append(Outcome(key, *answer))
                future.release()
        return ended

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn the loss of the scheduler into a `ClusterError`."""
        lost = ClusterError(f"lost the cluster at {self._address}")
        if self._client.status != "running":
            raise lost
        try:
            yield
        except (CancelledError, OSError) as error:
            raise lost from error

    def close(self) -> None:
        with suppress(Exception):  # the scheduler may have ended
            self._client.cancel(list(self._running))
            self._client.close()

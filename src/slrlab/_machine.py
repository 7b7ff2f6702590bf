"""Memory, cores and processes of this machine."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_SHARE = 0.9  # share of the free memory for one dataset


def free_memory() -> int:
    """Return the bytes that can be allocated without swapping or being killed.

    The smallest of what the machine has free and what a control group leaves; the machine's whole
    memory where the system does not say.
    """
    free = _machine()
    for group in _groups():
        with suppress(OSError, ValueError):  # no such file, or "max": no limit
            limit, used = (
                int((group / f"memory.{name}").read_text()) for name in ("max", "current")
            )
            free = min(free, max(0, limit - used + _reclaimable(group / "memory.stat")))
    return free


def _groups() -> list[Path]:
    """Return the control group (version 2) of this process and the groups around it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    path = _CGROUP / own.lstrip("/")
    return [path, *(parent for parent in path.parents if parent.is_relative_to(_CGROUP))]


def _reclaimable(stat: Path) -> int:
    """Return the bytes of file cache that the kernel frees on demand."""
    try:
        pairs = dict(line.split() for line in stat.read_text().splitlines())
        return int(pairs.get("inactive_file", 0))
    except (OSError, ValueError):
        return 0


def cores() -> int:
    """Return how many threads may run: ``NUMBA_NUM_THREADS`` if set, as in worker processes.

    Else the cores that this process may use, but no more than the quota of its control groups.
    """
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    affinity = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1
    for group in _groups():
        with suppress(OSError, ValueError):  # no such file, or "max": no quota
            quota, period = map(int, (group / "cpu.max").read_text().split())
            count = min(count, max(1, math.ceil(quota / period)))
    return count


def allowed_memory() -> int:
    """Return the bytes that one dataset may take."""
    return int(_SHARE * free_memory())


def in_gib(size: float) -> str:
    """Return a number of bytes as text.

    >>> in_gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**28 else f"{size / 2**20:.1f} MiB"


def process_birth(pid: int) -> str:
    """Return when a process of this machine began, in ticks: its number may be used again later.

    ``gone`` if there is no such process, ``unknown`` where the system does not say.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return "gone" if state == "Z" else rest[18]
    except FileNotFoundError:
        return "gone" if Path("/proc/self/stat").exists() else "unknown"
    except OSError:
        return "unknown"


def _machine() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # no such name on this system
        return 2**33

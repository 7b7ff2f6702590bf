"""What this machine has to offer: memory and cores. Knows nothing about attention."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_KEEP = 0.9  # share of the free memory that one dataset may take


def free_memory() -> int:
    """Return the bytes that can be allocated without swapping or being killed.

    The smallest of what the machine has free and what a control group leaves; the machine's whole
    memory where the system does not say.
    """
    found = [_machine()]
    for group in _groups():
        most, now = _number(group / "memory.max"), _number(group / "memory.current")
        if most is not None and now is not None:
            found.append(max(0, most - now + _reclaimable(group / "memory.stat")))
    return min(found)


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
    """Return the bytes of file cache that the kernel gives up when asked."""
    try:
        pairs = dict(line.split() for line in stat.read_text().splitlines())
        return int(pairs.get("inactive_file", 0))
    except (OSError, ValueError):
        return 0


def cores() -> int:
    """Return how many threads may work: one where processes share the cores."""
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allowed_memory() -> int:
    """Return the bytes that one dataset may take."""
    return int(_KEEP * free_memory())


def in_gib(size: float) -> str:
    """Return a number of bytes in words.

    >>> in_gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**28 else f"{size / 2**20:.1f} MiB"


def _machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # no such name on this system
        return 2**33


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None

"""How much memory a worker may claim, so that a unit that eats memory fails alone and takes neither host nor neighbours along."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

SHARE = 0.8
"""Of a host's memory all workers on it together; Ray kills workers, innocent ones too, when 0.95 of it is in use."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def limit_memory(extra_bytes: int) -> None:
    """Let this process claim `extra_bytes` of private memory beyond what it has now; more raises MemoryError.

    Read-only maps, such as the checkpoint's, do not count (RLIMIT_DATA).
    """
    current = _kib(Path("/proc/self/status"), "VmData:")
    if current is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, ((current << 10) + extra_bytes, hard))


def fair_share(workers: int) -> int | None:
    """Bytes that each of so many workers of this host may claim beyond what it starts with; None where the host does not tell."""
    total = host_memory()
    return None if total is None else int(total * SHARE / workers)


def host_memory() -> int | None:
    """Bytes of memory of this host, or of the container if it is limited to less; None where neither is known."""
    kib = _kib(Path("/proc/meminfo"), "MemTotal:")
    found = [] if kib is None else [kib << 10]
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(Path(name).read_text()))
    return min(found, default=None)


def _kib(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return None

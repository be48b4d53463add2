"""Processors of a worker: as many of the host's as it has threads, and no other worker's."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from pathlib import Path

_held: list[int] = []  # descriptors whose locks say that this process has a processor; the kernel drops them with the process


def bind(threads: int) -> list[int]:
    """Bind the calling thread, and those it starts from now on, to `threads` processors that no other worker of this user holds.

    Returns them; empty when fewer are free, as when a cluster was told of more processors than the host has: then the host's
    scheduler decides.
    """
    if not hasattr(os, "sched_setaffinity"):
        return []
    allowed = sorted(os.sched_getaffinity(0))
    directory = Path(tempfile.gettempdir()) / f"runner-processors-{os.getuid()}"
    if not _is_own(directory):
        return []
    locks: dict[int, int] = {}
    for processor in allowed:
        if len(locks) == threads:
            break
        descriptor = os.open(directory / str(processor), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            locks[processor] = descriptor
    if len(locks) < threads:
        for descriptor in locks.values():
            os.close(descriptor)
        return []
    _held.extend(locks.values())
    os.sched_setaffinity(0, set(locks))
    return list(locks)


def _is_own(directory: Path) -> bool:
    """Whether the directory, made if need be, is this user's alone: where anybody may write, a name may be someone else's."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022

"""A process as others can tell it from every other: whether it still lives is known on its own machine, and only there."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """machine: boot and process namespace, "" where the system does not say. started: in clock ticks since boot, so that a
    process which has got a dead one's number is not taken for it.
    """

    host: str
    pid: int
    started: int
    machine: str

    def is_here(self) -> bool:
        """Whether its number means something to this process: the same boot of the same machine, the same container."""
        return bool(self.machine) and (self.host, self.machine) == (socket.gethostname(), _machine())

    def is_alive(self) -> bool:
        """Precondition: is_here()."""
        return _started(self.pid) == self.started


def this_process() -> Process:
    return Process(socket.gethostname(), os.getpid(), _started(os.getpid()), _machine())


@cache
def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + " " + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> int:
    """Start of a process that runs, or -1: there is none, or only what its parent has not yet taken note of."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if state in "ZX" else int(fields[18])

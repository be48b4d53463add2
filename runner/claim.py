"""One driver a run: an exclusive lock on the run's claim file, with the holder's name in it.

The kernel drops the lock when its process ends, however it ends, so a crashed driver needs no unlock command. The rejected
alternative, a file that exists while a driver lives, would need one.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.disk import FILE_MODE
from schemas.errors import RunBusy

# A reader that asks who holds a claim holds it itself for an instant.
_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True)
class Holder:
    """Who holds a claim, as the claim file says."""

    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} since {self.since}"


class Claim:
    """The claim on a run, held between `with` and its end. Raises RunBusy, naming the holder, when another live driver has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        # Not inheritable (PEP 446): a worker process that outlives its driver must not keep the run busy.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _locked(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(descriptor)
                holder = _read(self.path)
                raise RunBusy(f"{self.path.parent}: another driver works on this run: {holder or 'its name is not written yet'}")
            time.sleep(0.02)
        self._descriptor = descriptor
        me = Holder(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(asdict(me)) + "\n").encode(), 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.close(self._descriptor)  # which unlocks
        self._descriptor = -1


def holder(path: Path) -> Holder | None:
    """The live driver that holds the claim at `path`, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if _locked(descriptor, fcntl.LOCK_SH) else _read(path)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError):
        return None

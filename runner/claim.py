"""One driver a run: an exclusive lock on the run's directory, and beside it a claim file that says who has it.

The kernel drops the lock when its process ends, however it ends, so a crashed driver needs no unlock command. The rejected
alternatives: a file that exists while a driver lives would need one; a lock on the claim file is lost with the file, since
whoever comes after its removal locks another one.
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
        return f"process {self.pid} on host {self.host} since {self.since}" if self.pid else "its claim file does not say who"


_UNNAMED = Holder("", 0, "")
"""A live driver whose name is not written yet, or was removed."""


class Claim:
    """The claim on a run, held between `with` and its end. Raises RunBusy, naming the holder, when another live driver has it.

    path: of the claim file, in the run's directory, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        # Not inheritable (PEP 446): a worker process that outlives its driver must not keep the run busy.
        descriptor = _opened(self.path.parent)
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not _locked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise RunBusy(f"{self.path.parent}: another driver works on this run: {_read(self.path)}")
                time.sleep(0.02)
            self._describe()
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def _describe(self) -> None:
        me = Holder(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))
        claim = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            os.write(claim, (json.dumps(asdict(me)) + "\n").encode())
        finally:
            os.close(claim)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.close(self._descriptor)  # which unlocks
        self._descriptor = -1


def holder(path: Path) -> Holder | None:
    """The live driver that holds the claim at `path`, or None."""
    try:
        descriptor = _opened(path.parent)
    except FileNotFoundError:
        return None
    try:
        return None if _locked(descriptor, fcntl.LOCK_SH) else _read(path)
    finally:
        os.close(descriptor)


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> Holder:
    try:
        return Holder(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return _UNNAMED

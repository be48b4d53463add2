"""Where a run lies: what every kind of storage can do, and which kind an address names.

A run needs little of its storage: whole objects, one of which can be created only where nothing is. There is no append and no
lock in it, so that a directory and an object store are written in one and the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Protocol

from runner.local_storage import LocalStorage
from runner.location import ObjectPath


class Appender(Protocol):
    """Takes the lines of a log that nothing is decided by. Not durable before it is closed; a kill may lose its end."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Storage(Protocol):
    """Whole objects under paths. Every method raises OSError, with the path in it, for what the storage refuses.

    parallel: how many requests at a time are worth while.
    """

    parallel: int

    def exists(self, path: PurePath) -> bool: ...

    def read(self, path: PurePath, limit: int | None = None) -> bytes:
        """The content, or its first `limit` bytes. Raises FileNotFoundError."""

    def names(self, directory: PurePath) -> list[str]:
        """Names of the files in a directory, sorted, without those that are not whole; [] when there is no such directory."""

    def entries(self, directory: PurePath) -> list[PurePath]:
        """Everything right below a directory, directories included, that no killed writer of ours left; sorted."""

    def create(self, path: PurePath, data: bytes, *, read_only: bool = True) -> None:
        """Write what nobody else may write: it is there whole and durable on return, or not at all.

        Raises FileExistsError when something else is at `path`. The same bytes are taken for this very write, whose answer may
        have been lost on its way.
        """

    def replace(self, path: PurePath, data: bytes) -> None:
        """Write in place of what is there, if anything: whole and durable on return, or as before."""

    def overwrite(self, path: PurePath, data: bytes) -> None:
        """Write in place of what is there, of the same length; neither durable nor atomic, and cheap. For heartbeats."""

    def remove(self, path: PurePath) -> None:
        """Remove a file, which need not be there."""

    def appender(self, path: PurePath) -> Appender: ...

    def read_appended(self, path: PurePath, offset: int = 0) -> bytes:
        """What appenders of `path` have written so far, behind the first `offset` bytes; b"" if none has."""

    def lock(self, root: PurePath) -> tuple[bool, Callable[[], None]]:
        """Lock `root`, which is made if it is not there, against other processes of this machine.

        Returns whether there is such a lock here, and what gives it back; the end of the process does, too. Raises
        BlockingIOError when another process has it.
        """

    def is_locked(self, root: PurePath) -> bool:
        """Whether another process of this machine has locked `root`, as far as can be known."""

    def leftovers(self, root: PurePath) -> list[PurePath]:
        """Files below `root` that a killed writer left and that nobody will ever read, sorted."""


def storage_at(path: PurePath) -> Storage:
    """The storage that holds `path`. Raises InvalidInput when what it needs is not installed."""
    if isinstance(path, ObjectPath):
        # Here, because its libraries take a second to import and are an extra.
        from runner.object_storage import ObjectStorage

        return ObjectStorage()
    assert isinstance(path, Path), f"{path!r} is no path of a file system"
    return LocalStorage()

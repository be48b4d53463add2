"""A run in a directory, on this machine or shared with others. Implements `runner.storage.Storage`.

A shared file system must know hard links: a link is what creates a name exclusively and with its whole content, on NFS too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path, PurePath

from runner.disk import COMMITTED_MODE, FILE_MODE, Disk

# A reader that asks whether a directory is locked locks it itself for an instant.
_PATIENCE_SECONDS = 0.5


class LocalStorage:
    """Files of a file system, written through `disk`."""

    parallel = 1

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()

    def exists(self, path: PurePath) -> bool:
        return Path(path).exists()

    def read(self, path: PurePath, limit: int | None = None) -> bytes:
        with Path(path).open("rb") as file:
            return file.read(-1 if limit is None else limit)

    def names(self, directory: PurePath) -> list[str]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))
        except FileNotFoundError:
            return []

    def entries(self, directory: PurePath) -> list[PurePath]:
        try:
            found = sorted(Path(directory).iterdir())
        except FileNotFoundError:
            return []
        return [path for path in found if not (path.name.startswith(".") and path.name.endswith(".tmp"))]

    def create(self, path: PurePath, data: bytes, *, read_only: bool = True) -> None:
        target = Path(path)
        temporary = self._written(target, data, COMMITTED_MODE if read_only else FILE_MODE)
        try:
            self._disk.link(temporary, target)
        except FileExistsError:
            # NFS: a link may be made and its answer lost, so that the repeated request finds the name taken.
            if target.read_bytes() != data:
                raise
        finally:
            self._swept(temporary)
        self._disk.fsync(target.parent)

    def replace(self, path: PurePath, data: bytes) -> None:
        target = Path(path)
        temporary = self._written(target, data, FILE_MODE)
        try:
            self._disk.rename(temporary, target)
        except OSError:
            self._swept(temporary)
            raise
        self._disk.fsync(target.parent)

    def overwrite(self, path: PurePath, data: bytes) -> None:
        # In place: a reader on another host opens the file anew each time, which NFS answers with the latest content of this
        # file; a renamed one would first have to replace a cached name.
        with Path(path).open("r+b", buffering=0) as file:
            file.write(data)

    def remove(self, path: PurePath) -> None:
        self._disk.remove(Path(path))

    def appender(self, path: PurePath) -> FileAppender:
        self._make_directories(Path(path).parent)
        return FileAppender(Path(path))

    def read_appended(self, path: PurePath, offset: int = 0) -> bytes:
        try:
            with Path(path).open("rb") as log:
                log.seek(offset)
                return log.read()
        except FileNotFoundError:
            return b""

    def lock(self, root: PurePath) -> tuple[bool, Callable[[], None]]:
        # Of the directory: one of a file would be lost with the file. Not inheritable (PEP 446), so that a worker process which
        # outlives its driver does not keep the run busy.
        self._make_directories(Path(root))
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not _flocked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(root))
                time.sleep(0.02)
        except BlockingIOError:
            os.close(descriptor)
            raise
        except OSError:  # NFS and others know no lock of a directory
            os.close(descriptor)
            return False, lambda: None
        return True, lambda: os.close(descriptor)

    def is_locked(self, root: PurePath) -> bool:
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            return not _flocked(descriptor, fcntl.LOCK_SH)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def leftovers(self, root: PurePath) -> list[PurePath]:
        return sorted(path for path in Path(root).rglob(".*.tmp") if path.is_file())

    def _written(self, target: Path, data: bytes, mode: int) -> Path:
        """A file with this content, durable, beside `target` and under a name that readers pass over.

        Written, synced and compared before it has its name, because a name that survives a power loss must never lead to content
        that does not. The name is this write's own: a driver that was given up for dead may still be writing the same target.
        """
        self._make_directories(target.parent)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
        try:
            self._disk.write(temporary, data, mode)
            self._disk.fsync(temporary)
            if temporary.read_bytes() != data:
                raise OSError(errno.EIO, "what was read back is not what was written", str(target))
        except OSError:
            self._swept(temporary)
            raise
        return temporary

    def _swept(self, temporary: Path) -> None:
        """Remove a temporary file; if that is refused too, the next driver does it."""
        with contextlib.suppress(OSError):
            self._disk.remove(temporary)

    def _make_directories(self, directory: Path) -> None:
        """Create a directory, and its parents, that are not there; durable on return."""
        for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
            self._disk.make_directory(missing)
            self._disk.fsync(missing.parent)


def _flocked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileAppender:
    """Appends to the file at `path`, which need not be there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        end = os.fstat(self._descriptor).st_size
        if end and os.pread(self._descriptor, 1, end - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # behind a torn line, which otherwise would take the next one along

    def write(self, data: bytes) -> None:
        try:
            os.write(self._descriptor, data)
        except OSError as error:  # os.write knows no name
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def close(self) -> None:
        os.close(self._descriptor)

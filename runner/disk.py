"""The few operations by which a run changes its directory, and the one way in which files come into being.

All that writes goes through a `Disk`, so that a test can kill or fail the process at the Nth operation, and so that
another kind of store has one class to stand in for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# A run may hold private prompts: nothing of it is readable by others unless its owner says so.
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
# Committed data never changes again.
COMMITTED_MODE = 0o400


class Disk:
    """Primitive operations on the local file system. Each raises OSError with the file's name in it."""

    def make_directory(self, path: Path) -> None:
        """Create a directory; not durable."""
        path.mkdir(mode=DIRECTORY_MODE)

    def write(self, path: Path, data: bytes, mode: int = FILE_MODE) -> None:
        """Create or replace a file; not durable, not atomic."""
        path.unlink(missing_ok=True)
        self._write_all(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, data, mode)

    def append(self, path: Path, data: bytes) -> None:
        """Add to the end of a file that exists; not durable, not atomic."""
        self._write_all(path, os.O_WRONLY | os.O_APPEND, data, FILE_MODE)

    def fsync(self, path: Path) -> None:
        """Make the content of a file, or the names in a directory, survive a power loss."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its name, atomically."""
        source.replace(target)

    def truncate(self, path: Path, size: int) -> None:
        os.truncate(path, size)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _write_all(self, path: Path, flags: int, data: bytes, mode: int) -> None:
        descriptor = os.open(path, flags, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:  # os.write knows no name
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """The name a file has until it is whole: it starts with a dot, so dataset readers pass over it."""
    return path.with_name(f".{path.name}.tmp")


def is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def make_directories(disk: Disk, *paths: Path) -> None:
    """Create directories, and their parents, that are not there; durable on return."""
    for path in paths:
        missing = [directory for directory in (path, *path.parents) if not directory.exists()]
        for directory in reversed(missing):
            disk.make_directory(directory)
            disk.fsync(directory.parent)


def put_files(disk: Disk, files: Sequence[tuple[Path, bytes]], mode: int = FILE_MODE) -> None:
    """Write files so that each is there whole or not at all, and all are durable on return.

    Temporary file, fsync, reopen and compare, rename, directory fsync: in this order, because a name that survives a power loss
    must never lead to content that does not. Directories are synced once each, after all renames.
    """
    for path, data in files:
        temporary = temporary_name(path)
        disk.write(temporary, data, mode)
        disk.fsync(temporary)
        if temporary.read_bytes() != data:
            raise OSError(None, "what was read back is not what was written", str(temporary))
    for path, _ in files:
        disk.rename(temporary_name(path), path)
    for directory in sorted({path.parent for path, _ in files}):
        disk.fsync(directory)

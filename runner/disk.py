"""The few operations by which a run changes a file system.

All that writes to one goes through a `Disk`, so that a test can kill or fail the process at the Nth operation.
"""

from __future__ import annotations

import os
from pathlib import Path

# A run may hold private prompts: nothing of it is readable by others unless its owner says so.
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
# What is written once never changes again.
COMMITTED_MODE = 0o400


class Disk:
    """Primitive operations on a file system. Each raises OSError with the file's name in it."""

    def make_directory(self, path: Path) -> None:
        """Create a directory; not durable. One that somebody else made meanwhile is fine."""
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)

    def write(self, path: Path, data: bytes, mode: int = FILE_MODE) -> None:
        """Create a file; not durable, not atomic. Raises FileExistsError when it is there."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:  # os.write knows no name
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)

    def fsync(self, path: Path) -> None:
        """Make the content of a file, or the names in a directory, survive a power loss."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, atomically. Raises FileExistsError when the name is taken."""
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, atomically, in place of whatever has it."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

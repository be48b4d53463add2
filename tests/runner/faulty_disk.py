"""Disks that go wrong at the Nth operation: killed, torn, full, or cut from power."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from runner.disk import FILE_MODE, Disk


class HastyDisk(Disk):
    """Syncs nothing, which takes most of the time and which no test but one of a real power cut could notice."""

    def fsync(self, path: Path) -> None:
        assert path.exists()


class CountingDisk(HastyDisk):
    """Calls `before(number)` ahead of each operation, numbered from 1; what it returns is the share of a write that is done."""

    def __init__(self, before: Callable[[int], float]) -> None:
        self.operations: list[str] = []
        self._before = before

    def _next(self, operation: str) -> float:
        self.operations.append(operation)
        return self._before(len(self.operations))

    def make_directory(self, path: Path) -> None:
        self._next("make_directory")
        super().make_directory(path)

    def write(self, path: Path, data: bytes, mode: int = FILE_MODE) -> None:
        share = self._next("write")
        super().write(path, data[: int(len(data) * share)], mode)
        if share < 1:
            die()

    def fsync(self, path: Path) -> None:
        self._next("fsync")
        super().fsync(path)

    def rename(self, source: Path, target: Path) -> None:
        self._next("rename")
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._next("link")
        super().link(source, target)

    def remove(self, path: Path) -> None:
        self._next("remove")
        super().remove(path)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killing_disk(at: int) -> CountingDisk:
    """SIGKILL instead of operation `at`."""

    def before(number: int) -> float:
        if number == at:
            die()
        return 1.0

    return CountingDisk(before)


def tearing_disk(at: int) -> CountingDisk:
    """SIGKILL in the middle of operation `at`, if that is a write."""
    return CountingDisk(lambda number: 0.6 if number == at else 1.0)


def full_disk(at: int, code: int = errno.ENOSPC, *, lasting: bool = True) -> CountingDisk:
    """Operation `at` is refused, and every one after it if that is lasting."""

    def before(number: int) -> float:
        if number == at or (lasting and number > at):
            raise OSError(code, os.strerror(code), "somewhere")
        return 1.0

    return CountingDisk(before)


class PowerCut(BaseException):
    """The machine went off."""


class PowerlessDisk(CountingDisk):
    """Cut from power at operation `at`. `lose` then takes away what was not synced, as a file system may do."""

    def __init__(self, at: int = 0) -> None:
        def before(number: int) -> float:
            if 0 < at <= number:
                raise PowerCut
            return 1.0

        super().__init__(before)
        self._content: dict[Path, int] = {}  # path -> length that is synced
        self._names: dict[Path, bytes | None] = {}  # path whose name is not synced -> content that had this name before

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self._names.setdefault(path, None)

    def write(self, path: Path, data: bytes, mode: int = FILE_MODE) -> None:
        super().write(path, data, mode)
        self._content[path] = 0
        self._names.setdefault(path, None)

    def fsync(self, path: Path) -> None:
        super().fsync(path)
        if path.is_dir():
            self._names = {name: before for name, before in self._names.items() if name.parent != path}
        else:
            self._content.pop(path, None)

    def rename(self, source: Path, target: Path) -> None:
        self._names.setdefault(target, target.read_bytes() if target.exists() else None)
        super().rename(source, target)
        if source in self._content:
            self._content[target] = self._content.pop(source)
        self._names.pop(source, None)

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        self._names[target] = None
        if source in self._content:
            self._content[target] = self._content[source]

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._content.pop(path, None)
        self._names.pop(path, None)

    def lose(self, *, below: str = "") -> None:
        """Lose everything that was not synced, or only what has `below` in its path: nothing says that all of it is lost."""
        for path, synced in self._content.items():
            if path.exists() and below in str(path):
                path.chmod(0o600)
                # Half of what was not synced got through.
                os.truncate(path, synced + (path.stat().st_size - synced) // 2)
        for path, before in self._names.items():
            if below not in str(path):
                continue
            if path.is_dir():
                shutil.rmtree(path)
                continue
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before)

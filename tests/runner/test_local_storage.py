"""Files come into being whole, durable and private, and only once where they must."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from faulty_disk import PowerlessDisk

from runner.disk import Disk
from runner.local_storage import LocalStorage


def test_files_that_were_written_survive_a_power_cut(tmp_path: Path) -> None:
    disk = PowerlessDisk()
    storage = LocalStorage(disk)
    storage.create(tmp_path / "a" / "b" / "file", b"content")
    storage.replace(tmp_path / "a" / "other", b"more")
    disk.lose()
    assert storage.read(tmp_path / "a" / "b" / "file") == b"content"
    assert storage.read(tmp_path / "a" / "other") == b"more"


def test_a_file_that_is_replaced_has_the_old_content_or_the_new(tmp_path: Path) -> None:
    LocalStorage().replace(tmp_path / "file", b"old")
    disk = PowerlessDisk()
    disk.write(tmp_path / ".file.tmp", b"new")
    disk.rename(tmp_path / ".file.tmp", tmp_path / "file")
    disk.lose()
    assert (tmp_path / "file").read_bytes() == b"old"


def test_what_is_created_is_never_replaced(tmp_path: Path) -> None:
    storage = LocalStorage()
    storage.create(tmp_path / "file", b"first")
    with pytest.raises(FileExistsError):
        storage.create(tmp_path / "file", b"second")
    assert storage.read(tmp_path / "file") == b"first"
    assert storage.leftovers(tmp_path) == []


def test_a_creation_whose_answer_was_lost_may_be_repeated(tmp_path: Path) -> None:
    storage = LocalStorage()
    storage.create(tmp_path / "file", b"the very same")
    storage.create(tmp_path / "file", b"the very same")


def test_content_that_reads_back_differently_is_refused(tmp_path: Path) -> None:
    class Forgetful(Disk):
        def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
            super().write(path, data[:-1], mode)

    with pytest.raises(OSError, match="what was read back is not what was written"):
        LocalStorage(Forgetful()).create(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_readable_by_others_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        storage = LocalStorage()
        storage.create(tmp_path / "directory" / "committed", b"")
        storage.create(tmp_path / "directory" / "renewed", b"", read_only=False)
        storage.replace(tmp_path / "directory" / "replaced", b"")
        storage.appender(tmp_path / "directory" / "log").close()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"directory": 0o700, "committed": 0o400, "renewed": 0o600, "replaced": 0o600, "log": 0o600}


def test_names_leave_out_what_is_not_whole(tmp_path: Path) -> None:
    storage = LocalStorage()
    storage.create(tmp_path / "b", b"")
    storage.create(tmp_path / "a", b"")
    (tmp_path / ".c.0123.tmp").write_bytes(b"to")
    (tmp_path / "directory").mkdir()
    assert storage.names(tmp_path) == ["a", "b"]
    assert storage.names(tmp_path / "nowhere") == []
    assert storage.leftovers(tmp_path) == [tmp_path / ".c.0123.tmp"]


def test_a_lock_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    storage = LocalStorage()
    locked, unlock = storage.lock(tmp_path / "run")
    assert locked
    assert storage.is_locked(tmp_path / "run")
    with pytest.raises(BlockingIOError):
        storage.lock(tmp_path / "run")
    unlock()
    assert not storage.is_locked(tmp_path / "run")

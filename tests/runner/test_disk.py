"""Files come into being whole, durable and private."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_disk import PowerlessDisk

from runner.disk import COMMITTED_MODE, Disk, make_directories, put_files


def test_files_that_were_put_survive_a_power_cut(tmp_path: Path) -> None:
    disk = PowerlessDisk()
    make_directories(disk, tmp_path / "a" / "b")
    put_files(disk, [(tmp_path / "a" / "b" / "file", b"content"), (tmp_path / "a" / "other", b"more")])
    disk.lose()
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"content"
    assert (tmp_path / "a" / "other").read_bytes() == b"more"


def test_a_file_that_is_replaced_has_the_old_content_or_the_new(tmp_path: Path) -> None:
    put_files(Disk(), [(tmp_path / "file", b"old")])
    disk = PowerlessDisk()
    disk.write(tmp_path / ".file.tmp", b"new")
    disk.rename(tmp_path / ".file.tmp", tmp_path / "file")
    disk.lose()
    assert (tmp_path / "file").read_bytes() == b"old"


def test_content_that_reads_back_differently_is_refused(tmp_path: Path) -> None:
    class Forgetful(Disk):
        def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
            super().write(path, data[:-1], mode)

    with pytest.raises(OSError, match="what was read back is not what was written"):
        put_files(Forgetful(), [(tmp_path / "file", b"content")])
    assert not (tmp_path / "file").exists()


def test_nothing_is_readable_by_others_and_committed_files_are_read_only(tmp_path: Path) -> None:
    make_directories(Disk(), tmp_path / "directory")
    put_files(Disk(), [(tmp_path / "directory" / "file", b"")], COMMITTED_MODE)
    assert (tmp_path / "directory").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "directory" / "file").stat().st_mode & 0o777 == 0o400

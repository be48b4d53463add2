"""Workers of a host hold processors of their own."""

import multiprocessing
import os
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from actors.processors import bind

CPUS = sorted(os.sched_getaffinity(0))


def hold(threads: int, directory: str, pipe: Connection) -> None:
    """Bind, tell what was got and what the scheduler allows now, and hold it until told to end."""
    tempfile.tempdir = directory
    got = bind(threads)
    pipe.send((got, sorted(os.sched_getaffinity(0))))
    pipe.recv()


class Holder:
    """A process that holds processors."""

    def __init__(self, threads: int, directory: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=hold, args=(threads, str(directory), theirs))
        self._process.start()
        self.got, self.allowed = self._pipe.recv()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def test_workers_hold_different_processors_and_a_dead_one_frees_its_own(tmp_path: Path) -> None:
    holders = [Holder(1, tmp_path) for _ in CPUS[:4]]
    try:
        assert [holder.got for holder in holders] == [[cpu] for cpu in CPUS[:4]]
        assert all(holder.allowed == holder.got for holder in holders)
        holders[0].kill()
        holders.append(Holder(1, tmp_path))
        assert holders[-1].got == [CPUS[0]]
    finally:
        for holder in holders:
            holder.kill()


def test_a_worker_that_finds_too_few_is_left_to_the_scheduler(tmp_path: Path) -> None:
    first = Holder(1, tmp_path)
    second = Holder(len(CPUS), tmp_path)
    third = Holder(len(CPUS) - 1, tmp_path) if len(CPUS) > 1 else None
    try:
        assert (second.got, second.allowed) == ([], CPUS)
        assert third is None or third.got == CPUS[1:]  # what the second had tried is free again
    finally:
        for holder in (first, second, third):
            if holder is not None:
                holder.kill()


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_directory_that_others_may_write_to_is_not_trusted(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / f"runner-processors-{os.getuid()}"
    directory.mkdir()
    directory.chmod(mode)
    holder = Holder(1, tmp_path)
    try:
        assert (holder.got, holder.allowed) == ([], CPUS)
    finally:
        holder.kill()

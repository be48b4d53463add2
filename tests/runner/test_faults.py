"""A fault at every single operation on the disk, in turn: the run is never damaged, and resuming it gives the same bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from faulty_disk import CountingDisk, PowerCut, PowerlessDisk, full_disk, killing_disk, tearing_disk
from tiny_run import DirectedExecutor, TinyProtocol, complete, dataset, drive, experiment, open_reader

from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.store import RunStore
from runner.verify import verify

SMALL = experiment(prompts=2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(complete(tmp_path_factory.mktemp("undisturbed"), about=SMALL))


def resumes_to(root: Path, undisturbed: dict[str, bytes]) -> None:
    """The run is clean as it is, resumes, and then holds the undisturbed bytes and nothing else."""
    left = verify(RunStore(RunPaths(root), TinyProtocol().schemas()), TinyProtocol(), SMALL)
    assert left.clean, left.faults
    store = complete(root, DirectedExecutor(workers_alive=1), about=SMALL)
    assert dataset(store) == undisturbed
    whole = verify(open_reader(store), TinyProtocol(), SMALL)
    assert whole.clean, whole.faults
    assert not whole.leftovers


def survives_in_child(work: Callable[[], object]) -> bool:
    """Run `work` in a fork; False when it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def operations(tmp_path: Path) -> list[str]:
    """The operations that an undisturbed run takes, by name."""
    disk = killing_disk(at=-1)
    complete(tmp_path / "counted", disk=disk, about=SMALL)
    return disk.operations


@pytest.mark.parametrize("disk", [killing_disk, tearing_disk])
def test_kill_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], disk: Callable[[int], CountingDisk]) -> None:
    survived = []
    for at in range(1, len(operations(tmp_path)) + 1):
        root = tmp_path / str(at)
        survived.append(survives_in_child(partial(complete, root, disk=disk(at), about=SMALL)))
        resumes_to(root, undisturbed)
    # Only a write can be torn; any operation can be the last.
    assert survived.count(False) == len(survived) if disk is killing_disk else any(survived) and not all(survived)


@pytest.mark.parametrize("lost", ["", "/tables/", "/journal/", "/plans/"])
def test_power_cut_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], lost: str) -> None:
    for at in count(1):
        root, faulty = tmp_path / str(at), PowerlessDisk(at)
        try:
            complete(root, disk=faulty, about=SMALL)
        except PowerCut:
            faulty.lose(below=lost)
            resumes_to(root, undisturbed)
        else:
            break
    assert at > 50


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("lasting", [True, False])
def test_refusal_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], code: int, lasting: bool) -> None:
    refused = 0
    for at in count(1):
        root = tmp_path / str(at)
        disk = full_disk(at, code, lasting=lasting)
        try:
            complete(root, disk=disk, about=SMALL)
        except OSError as error:
            assert error.errno == code  # noqa: PT017 - in the end it is not raised
            refused += 1
        resumes_to(root, undisturbed)
        if len(disk.operations) < at:
            break
    assert refused > 50


def test_kill_at_every_operation_of_a_recovery(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """A driver is killed while it cleans up after a killed driver."""
    torn_write = [place for place, name in enumerate(operations(tmp_path), start=1) if name == "write"][3]
    for at in count(1):
        root = tmp_path / str(at)
        assert not survives_in_child(partial(complete, root, disk=tearing_disk(torn_write), about=SMALL))
        if survives_in_child(partial(complete, root, disk=killing_disk(at), about=SMALL)):
            break
        resumes_to(root, undisturbed)
    assert at > 10


def test_a_temporary_file_that_was_refused_is_removed_at_once(tmp_path: Path) -> None:
    disk = full_disk(at=3, lasting=False)  # directory, its fsync, then the write
    storage = LocalStorage(disk)
    with pytest.raises(OSError, match="No space left"):
        storage.create(tmp_path / "new" / "file", b"content")
    assert disk.operations[-1] == "remove"
    assert not storage.leftovers(tmp_path)


def test_units_that_arrived_before_the_disk_was_full_are_done_once_it_is_not(tmp_path: Path) -> None:
    executor = DirectedExecutor(workers_alive=1)
    units = drive(tmp_path / "whole", about=experiment(prompts=20, batch=1)).units("4")
    disk = full_disk(at=100)
    with pytest.raises(OSError, match="No space left"):
        drive(tmp_path / "run", executor, disk=disk, about=experiment(prompts=20, batch=1))
    done = RunStore(RunPaths(tmp_path / "run"), TinyProtocol().schemas()).units("4")
    assert 0 < len(done) < 20
    again = DirectedExecutor(workers_alive=1)
    assert drive(tmp_path / "run", again, about=experiment(prompts=20, batch=1)).units("4") == units
    assert not done & {unit.key for lease in again.leases for unit in lease.units}

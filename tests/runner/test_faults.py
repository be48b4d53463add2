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
from tiny_run import DirectedExecutor, TinyProtocol, dataset, drive, experiment, open_store

from runner.paths import RunPaths
from runner.store import RunStore
from runner.verify import verify

SMALL = experiment(prompts=2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("undisturbed")
    drive(root, about=SMALL)
    return dataset(root)


def resumes_to(root: Path, undisturbed: dict[str, bytes]) -> None:
    """The run is clean as it is, resumes, and then holds the undisturbed bytes and nothing else."""
    left = verify(RunStore(RunPaths(root), TinyProtocol().schemas()), TinyProtocol(), SMALL)
    assert left.clean, left.faults
    drive(root, DirectedExecutor(workers_alive=1), about=SMALL)
    assert dataset(root) == undisturbed
    whole = verify(open_store(root), TinyProtocol(), SMALL)
    assert whole.clean
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
    drive(tmp_path / "counted", disk=disk, about=SMALL)
    return disk.operations


@pytest.mark.parametrize("disk", [killing_disk, tearing_disk])
def test_kill_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], disk: Callable[[int], CountingDisk]) -> None:
    survived = []
    for at in range(1, len(operations(tmp_path)) + 1):
        root = tmp_path / str(at)
        survived.append(survives_in_child(partial(drive, root, disk=disk(at), about=SMALL)))
        resumes_to(root, undisturbed)
    # Only a write can be torn; any operation can be the last.
    assert survived.count(False) == len(survived) if disk is killing_disk else any(survived) and not all(survived)


@pytest.mark.parametrize("lost", ["", "/tables/", "/commits/", "/plans/"])
def test_power_cut_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], lost: str) -> None:
    for at in count(1):
        root, faulty = tmp_path / str(at), PowerlessDisk(at)
        try:
            drive(root, disk=faulty, about=SMALL)
        except PowerCut:
            faulty.lose(below=lost)
            resumes_to(root, undisturbed)
        else:
            break
    assert at > 50


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_refusal_at_every_operation(tmp_path: Path, undisturbed: dict[str, bytes], code: int) -> None:
    for at in count(1):
        root = tmp_path / str(at)
        try:
            drive(root, disk=full_disk(at, code), about=SMALL)
        except OSError as error:
            assert error.errno == code  # noqa: PT017 - in the end it is not raised
            resumes_to(root, undisturbed)
        else:
            break
    assert at > 50


def test_kill_at_every_operation_of_a_recovery(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """A driver is killed while it cleans up after a killed driver."""
    torn_append = operations(tmp_path).index("append") + 1
    for at in count(1):
        root = tmp_path / str(at)
        assert not survives_in_child(partial(drive, root, disk=tearing_disk(torn_append), about=SMALL))
        if survives_in_child(partial(drive, root, disk=killing_disk(at), about=SMALL)):
            break
        resumes_to(root, undisturbed)
    assert at > 10

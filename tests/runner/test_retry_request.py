"""Another try of what was set aside, asked for while a driver works: nothing is lost, nothing counted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from faulty_disk import killing_disk
from test_faults import survives_in_child
from tiny_run import DirectedExecutor, TinyProtocol, drive, experiment, open_store, rows

from actors.executor import FailureKind
from runner.disk import Disk
from runner.events import read_events
from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.protocol import Committed, Experiment
from runner.retry_request import RetryRequest
from runner.store import RunStore
from schemas.errors import UnitsFailed
from schemas.unit import Lease


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("undisturbed")
    drive(root)
    return rows(root)


class Cause:
    """Prompt p0 does harm until `when` says that somebody removes the cause and asks for a retry."""

    def __init__(self, root: Path, when: Callable[[RunStore, Lease], bool]) -> None:
        self.root, self.when, self.gone = root, when, False

    def __call__(self, lease: Lease) -> FailureKind | None:
        store = RunStore(RunPaths(self.root), TinyProtocol().schemas())
        if not self.gone and self.when(store, lease):
            self.gone = True
            RetryRequest(store).make()
        return "crash" if not self.gone and any(unit.prompt_id == "p0" for unit in lease.units) else None


def ticking() -> Callable[[], float]:
    """A clock on which every look is a second after the one before."""
    seconds = count()
    return lambda: float(next(seconds))


def set_aside(stage: str, store: RunStore, lease: Lease) -> bool:
    return lease.units[0].stage == stage and bool(store.failures("4"))


@pytest.mark.parametrize("stage", ["4", "8"])
def test_units_are_tried_again_by_the_live_driver(tmp_path: Path, undisturbed: dict[str, bytes], stage: str) -> None:
    """Asked for in the stage of the unit, and in the one behind it, which has left out the unit's prompt by then."""
    executor = DirectedExecutor(trouble=Cause(tmp_path, partial(set_aside, stage)))
    store = drive(tmp_path, executor, about=experiment(batch=1), clock=ticking())
    assert rows(tmp_path) == undisturbed
    assert not RetryRequest(store).pending()
    assert not store.failures("4")
    done = Counter(
        unit for event in read_events(store.storage, store.paths.events) if event["event"] == "done" for unit in event["units"]
    )
    assert set(done.values()) == {1}
    assert len(done) == len(store.units("4")) + len(store.units("8"))


def test_a_request_between_the_last_unit_and_the_end_is_taken(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    class Late(TinyProtocol):
        def check(self, experiment: Experiment, committed: Committed) -> list[str]:
            if committed.units("8") and not cause.gone:
                cause.gone = True
                RetryRequest(RunStore(RunPaths(tmp_path), TinyProtocol().schemas())).make()
            return super().check(experiment, committed)

    cause = Cause(tmp_path, lambda store, lease: False)
    drive(tmp_path, DirectedExecutor(trouble=cause), protocol=Late())
    assert rows(tmp_path) == undisturbed


def test_a_request_that_a_dead_driver_left_is_taken_by_the_next(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=Cause(tmp_path, lambda store, lease: False)))
    assert store.failures("4")
    RetryRequest(store).make()
    drive(tmp_path)
    assert rows(tmp_path) == undisturbed
    assert not RetryRequest(store).pending()


def test_a_stage_chosen_among_all_is_not_planned_between_a_retry_and_its_result(tmp_path: Path) -> None:
    class Choosy(TinyProtocol):
        needs_complete: Mapping[str, Sequence[str]] = {"8": ("4",)}

        def check(self, experiment: Experiment, committed: Committed) -> list[str]:
            if not cause.gone:
                cause.gone = True
                RetryRequest(RunStore(RunPaths(tmp_path), TinyProtocol().schemas())).make()
            return []

    cause = Cause(tmp_path, lambda store, lease: False)
    drive(tmp_path, DirectedExecutor(trouble=cause), protocol=Choosy())
    planned = [
        (event["stage"], event["units"])
        for event in read_events(LocalStorage(), tmp_path / "events.log")
        if event["event"] == "planned"
    ]
    assert [stage for stage, _ in planned] == ["4", "4", "8"]
    with pytest.raises(UnitsFailed):
        drive(tmp_path / "without", DirectedExecutor(trouble=Cause(tmp_path, lambda store, lease: False)), protocol=Choosy())


def test_a_unit_that_fails_again_is_set_aside_again(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=Cause(tmp_path, lambda store, lease: False)))
    RetryRequest(store).make()
    drive(tmp_path, DirectedExecutor(trouble=Cause(tmp_path, lambda store, lease: False)))
    assert [one.prompt_id for one in store.failures("4").values()] == ["p0"]


def drive_with_request(root: Path, disk: Disk) -> None:
    """p0 is set aside, and somebody asks for it again as soon as that is so."""
    cause = Cause(root, partial(set_aside, "4"))
    drive(root, DirectedExecutor(trouble=cause), disk=disk, about=experiment(batch=1), clock=ticking())


def test_kill_at_every_operation_of_a_run_with_a_request(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    for at in count(1):
        root = tmp_path / str(at)
        if survives_in_child(partial(drive_with_request, root, killing_disk(at))):
            break
        asked = RetryRequest(open_store(root)).pending()
        store = drive(root)
        assert not RetryRequest(store).pending()
        if asked:
            assert not store.failures("4")
        RetryRequest(store).clear(("4", "8"))
        drive(root)
        assert rows(root) == undisturbed
    assert at > 60

"""One driver a run, no unlocking after a crash, and nothing from a driver that was given up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_run import TinyProtocol, dataset, execute, experiment

from runner import claim, process
from runner.claim import Claim, Onlooker, holder
from runner.commit import Committer
from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.plan import PlannedUnit, write_plan
from runner.store import RunStore
from schemas.errors import RunBusy

HOLD = """
import sys, time
from pathlib import Path
from runner import claim
from runner.claim import Claim
from runner.local_storage import LocalStorage
from runner.paths import RunPaths

class Lockless(LocalStorage):
    def lock(self, root):
        return False, lambda: None

    def is_locked(self, root):
        return False

claim.HEARTBEAT_SECONDS, claim.EXPIRY_SECONDS = 0.1, 1.0
if sys.argv[2] == "elsewhere":
    from runner import process
    process._machine = lambda: "another machine"
with Claim(LocalStorage() if sys.argv[2] == "here" else Lockless(), RunPaths(Path(sys.argv[1]))) as held:
    print("held", flush=True)
    for line in sys.stdin:
        try:
            held.require_held()
            print("still", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
"""


class Lockless(LocalStorage):
    """A file system that knows no locks, as NFS may be."""

    def lock(self, root: object) -> tuple[bool, object]:
        return False, lambda: None

    def is_locked(self, root: object) -> bool:
        return False


class Other:
    """A driver in another process; `where` is "here", "lockless" (here, without locks) or "elsewhere" (another machine)."""

    def __init__(self, root: Path, where: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(root), where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.told() == "held"

    def told(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def asked(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        return self.told()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(claim, "EXPIRY_SECONDS", 1.0)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


@pytest.fixture(params=["here", "lockless", "elsewhere"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Other]:
    made = Other(tmp_path, request.param)
    yield made
    made.process.send_signal(signal.SIGCONT)
    made.end()


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> LocalStorage:
    here = "here" in request.node.name
    return LocalStorage() if here else Lockless()


def test_a_second_driver_is_told_who_the_first_is(other: Other, storage: LocalStorage, paths: RunPaths) -> None:
    text = f"another driver works on this run: process {other.process.pid} on host {os.uname().nodename} since "
    with pytest.raises(RunBusy, match=text) as caught, Claim(storage, paths):
        pass
    assert caught.value.exit_code == 5
    assert other.asked() == "still"


def test_a_killed_driver_needs_no_unlock(other: Other, storage: LocalStorage, paths: RunPaths) -> None:
    other.end()
    with Claim(storage, paths) as held:
        assert held.epoch == 2


def test_whoever_asks_learns_who_drives(other: Other, storage: LocalStorage, paths: RunPaths) -> None:
    found = holder(storage, paths)
    assert found is not None
    assert found.process.pid == other.process.pid


@pytest.mark.parametrize("other", ["elsewhere"], indirect=True)
def test_a_stopped_driver_of_another_machine_is_given_up_and_finds_out(other: Other, paths: RunPaths) -> None:
    notices: list[str] = []
    other.process.send_signal(signal.SIGSTOP)
    with Claim(Lockless(), paths, notice=notices.append) as held:
        assert held.epoch == 2
        assert f"process {other.process.pid} on host" in notices[0]
        other.process.send_signal(signal.SIGCONT)
        said = other.asked()
        assert said.startswith("RunBusy: ")
        assert f"this driver was given up, and another one works on the run: process {os.getpid()} on host" in said
        held.require_held()
    # Its end gives back nothing that is not its own.
    other.process.stdin.close()  # type: ignore[union-attr]
    other.process.wait()
    assert holder(Lockless(), paths) is None


@pytest.mark.parametrize("other", ["elsewhere"], indirect=True)
def test_a_lock_that_a_dead_machine_has_left_is_no_sign_of_life(other: Other, paths: RunPaths) -> None:
    class Locked(Lockless):
        """A file system whose server has not yet given up the lock of a client that is gone."""

        def lock(self, root: object) -> tuple[bool, object]:
            raise BlockingIOError(11, "locked", str(root))

        def is_locked(self, root: object) -> bool:
            return True

    with pytest.raises(RunBusy, match=f"process {other.process.pid} on host"), Claim(Locked(), paths):
        pass
    other.process.send_signal(signal.SIGSTOP)
    with Claim(Locked(), paths) as held:
        assert held.epoch == 2


@pytest.mark.parametrize("other", ["here"], indirect=True)
def test_a_stopped_driver_of_this_machine_lives(other: Other, paths: RunPaths) -> None:
    other.process.send_signal(signal.SIGSTOP)
    with pytest.raises(RunBusy, match=f"process {other.process.pid}"), Claim(LocalStorage(), paths):
        pass


@pytest.mark.parametrize("other", ["here"], indirect=True)
@pytest.mark.parametrize("content", [None, b"", b"someone else's"])
def test_without_its_record_a_driver_of_this_machine_still_has_the_run(
    other: Other, paths: RunPaths, content: bytes | None
) -> None:
    paths.claim(1).unlink()
    if content is not None:
        paths.claim(1).write_bytes(content)
    who = f"its claim file does not say who|process {other.process.pid} on host"
    with pytest.raises(RunBusy, match=f"another driver works on this run: ({who})"), Claim(LocalStorage(), paths):
        pass
    assert holder(LocalStorage(), paths) is not None
    assert other.asked() == "still"


@pytest.mark.parametrize("other", ["elsewhere"], indirect=True)
def test_an_onlooker_gives_a_driver_of_another_machine_up_that_shows_no_sign_of_life(other: Other, paths: RunPaths) -> None:
    now = 0.0
    onlooker = Onlooker(Lockless(), paths, clock=lambda: now)
    other.process.send_signal(signal.SIGSTOP)
    assert onlooker.holder() is not None
    now = 0.9
    assert onlooker.holder() is not None
    now = 1.1
    assert onlooker.holder() is None


def test_nobody_drives_a_run_that_was_given_back(paths: RunPaths) -> None:
    storage = LocalStorage()
    assert holder(storage, paths) is None
    with Claim(storage, paths):
        assert holder(storage, paths) is not None
    assert holder(storage, paths) is None
    with Claim(Lockless(), paths) as held:
        assert held.epoch == 2
    assert [path.name for path in paths.claims.iterdir()] == ["000000002.json"]


def test_a_record_that_is_damaged_is_watched_and_taken_over(paths: RunPaths) -> None:
    with Claim(Lockless(), paths):
        pass
    paths.claim(1).write_bytes(b"{")
    with Claim(Lockless(), paths) as held:
        assert held.epoch == 2


def test_of_many_who_want_a_dead_drivers_run_one_gets_it(paths: RunPaths) -> None:
    Other(paths.root, "elsewhere").end()
    got: list[str] = []
    release = threading.Event()

    def want() -> None:
        try:
            with Claim(Lockless(), paths):
                got.append("claim")
                release.wait(10)
        except RunBusy:
            got.append("busy")

    threads = [threading.Thread(target=want) for _ in range(5)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(got) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    release.set()
    for thread in threads:
        thread.join()
    assert sorted(got) == ["busy"] * 4 + ["claim"]


def test_a_number_that_another_process_has_by_now_is_no_driver(paths: RunPaths) -> None:
    with Claim(Lockless(), paths):
        held = json.loads(paths.claim(1).read_bytes())
    # As a driver of this machine would have left it that was killed, and whose number this process got.
    paths.claim(1).write_text(json.dumps(held | {"state": "held", "started": held["started"] - 1}))
    assert held["pid"] == os.getpid()
    with Claim(Lockless(), paths):
        pass


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    while process._started(child.pid) != -1:
        time.sleep(0.01)
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()


def test_asking_does_not_keep_a_driver_out(paths: RunPaths) -> None:
    storage = LocalStorage()
    for _ in range(20):
        holder(storage, paths)
        with Claim(storage, paths):
            pass


def test_a_worker_that_outlives_its_driver_does_not_hold_the_claim(paths: RunPaths) -> None:
    with Claim(LocalStorage(), paths):
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with Claim(LocalStorage(), paths):
            pass
    finally:
        worker.kill()
        worker.wait()


def test_a_driver_that_was_given_up_neither_commits_nor_marks(tmp_path: Path) -> None:
    """Its heartbeat failed for long enough; it finds out at its next write, whatever that is."""
    paths, schemas = RunPaths(tmp_path), TinyProtocol().schemas()
    units = TinyProtocol().units(experiment(), "4", None)  # type: ignore[arg-type]
    first = RunStore(paths, schemas, Lockless())
    with Claim(Lockless(), paths) as held:
        held._stop.set()
        first.recover(held)
        write_plan(first, "4", [PlannedUnit(unit, "new") for unit in units])
        late = Committer(first)
        late.add("4", execute(None, units))
        record = json.loads(paths.claim(1).read_bytes())
        paths.claim(1).write_text(json.dumps(record | {"machine": "another machine"}))
        second = RunStore(paths, schemas, Lockless())
        with Claim(Lockless(), paths) as taken:
            second.recover(taken)
            before = sorted(tmp_path.rglob("*"))
            with pytest.raises(RunBusy, match="this driver was given up"):
                late.commit()
            with pytest.raises(RunBusy):
                write_plan(first, "4", [])
            assert sorted(tmp_path.rglob("*")) == before
            committer = Committer(second)
            committer.add("4", execute(None, units))
            assert len(committer.commit()) == 6
    assert dataset(second) == {}

"""Real actors on embedded Ray: every way in which a lease can end, and what becomes of the slot."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence

import pytest
from lease_work import execute, lease

from actors.executor import Done, Event, Failed, Joined, Left, WorkerSpec
from actors.pool import PoolSettings, RayPool
from schemas.unit import Lease

pytestmark = pytest.mark.slow

SPEC = WorkerSpec("builtin", "official", threads=1)
DEADLINE = 3.0


@pytest.fixture(scope="module")
def shared() -> Iterator[RayPool]:
    pool = RayPool(SPEC, execute, PoolSettings(actors=2, deadline=DEADLINE, memory_bytes=512 << 20))
    pool.start()
    yield pool
    pool.close()


@pytest.fixture
def pool(shared: RayPool) -> RayPool:
    """Two idle workers, all earlier events taken."""
    wait_until(shared, lambda _: shared.slots() == 2)
    shared.wait(0)
    return shared


def wait_until(pool: RayPool, satisfied: object, patience: float = 60.0) -> list[Event]:
    """Events until `satisfied(events)`."""
    events: list[Event] = []
    end = time.monotonic() + patience
    while not satisfied(events):  # type: ignore[operator]
        assert time.monotonic() < end, events
        events += pool.wait(0.2)
    return events


def outcomes(pool: RayPool, *leases: Lease) -> list[Done | Failed]:
    """What became of these leases, in their order."""
    for one in leases:
        pool.submit(one)

    def ended(events: Sequence[Event]) -> list[Done | Failed]:
        return [event for event in events if isinstance(event, Done | Failed)]

    ends = ended(wait_until(pool, lambda events: len(ended(events)) == len(leases)))
    return sorted(ends, key=lambda event: event.lease.lease_id)


def answer(event: Event) -> object:
    assert isinstance(event, Done), event
    return event.results[0].tables["answers"]["answer"][0].as_py()


def failed(event: Event) -> Failed:
    assert isinstance(event, Failed), event
    return event


def test_two_workers_work_in_processes_of_their_own(pool: RayPool) -> None:
    pids = {answer(event) for event in outcomes(pool, lease(1, "pid"), lease(2, "pid"))}
    assert pids == {report.pid for report in pool.workers()}
    assert os.getpid() not in pids


def test_results_are_those_of_the_lease(pool: RayPool) -> None:
    work = lease(1, "why", "the sheep")
    (done,) = outcomes(pool, work)
    assert isinstance(done, Done)
    assert done.lease == work
    assert [result.key for result in done.results] == [unit.key for unit in work.units]


def test_library_threads_are_bounded(pool: RayPool) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    assert [answer(outcomes(pool, lease(1, f"environment {name}"))[0]) for name in names] == ["1", "1", "1"]


def test_exception_carries_the_remote_traceback(pool: RayPool) -> None:
    (event,) = outcomes(pool, lease(1, "raise value"))
    assert (failed(event).kind, failed(event).error) == ("error", "ValueError: no such order")
    assert "lease_work.py" in failed(event).detail
    assert pool.slots() == 2


def test_finding_is_told_apart(pool: RayPool) -> None:
    (event,) = outcomes(pool, lease(1, "raise finding"))
    assert (failed(event).kind, failed(event).error) == ("finding", "bits differ")


def test_memory_limit_raises_in_the_worker_which_is_replaced(pool: RayPool) -> None:
    """What the lease has left behind in its worker must not be missed by the next one."""
    before = {report.worker for report in pool.workers()}
    too_much, enough = outcomes(pool, lease(1, "allocate 1024"), lease(2, "allocate 64"))
    assert (failed(too_much).kind, answer(enough)) == ("memory", 64 << 20)
    wait_until(pool, lambda _: pool.slots() == 2)
    assert {report.worker for report in pool.workers()} & before == {answered_by(enough)}


def answered_by(event: Event) -> str:
    assert isinstance(event, Done)
    return event.worker


def test_crash_is_charged_to_its_lease_alone(pool: RayPool) -> None:
    crashed, done = outcomes(pool, lease(1, "exit"), lease(2, "sleep 0.5"))
    assert failed(crashed).kind == "crash"
    assert answer(done) == "sleep 0.5"


def test_dead_worker_leaves_and_a_fresh_one_joins(pool: RayPool) -> None:
    before = {report.worker for report in pool.workers()}
    pool.submit(lease(1, "exit"))
    events = wait_until(pool, lambda events: any(isinstance(event, Joined) for event in events))
    assert [type(event) for event in events] == [Failed, Left, Joined]
    (left,) = (event.worker for event in events if isinstance(event, Left))
    (joined,) = (event.report.worker for event in events if isinstance(event, Joined))
    assert left in before
    assert {report.worker for report in pool.workers()} == before - {left} | {joined}


def test_overdue_lease_costs_the_worker(pool: RayPool) -> None:
    (event,) = outcomes(pool, lease(1, "sleep 100"))
    assert failed(event).kind == "deadline"
    assert "ran longer than 3 s" in failed(event).error


def test_death_of_an_idle_worker_is_not_charged_to_the_next_lease(pool: RayPool) -> None:
    for report in pool.workers():
        os.kill(report.pid, signal.SIGKILL)
    time.sleep(0.5)
    (event,) = outcomes(pool, lease(1, "pid"))
    assert failed(event).kind == "infrastructure"
    assert "before it got the lease" in failed(event).error
    # The other one is found out in the same way; then both are replaced.
    (other,) = outcomes(pool, lease(2, "pid"))
    assert failed(other).kind == "infrastructure" or isinstance(other, Done)


def test_worker_that_does_not_answer_is_no_fault_of_the_lease_it_was_to_get(
    pool: RayPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.pool.CHECK_SECONDS", 1.0)
    for report in pool.workers():
        os.kill(report.pid, signal.SIGSTOP)
    (event,) = outcomes(pool, lease(1, "pid"))
    assert (failed(event).kind, failed(event).error.partition(": ")[2]) == (
        "infrastructure",
        "did not answer for 1 s, before it got the lease",
    )
    for report in pool.workers():
        os.kill(report.pid, signal.SIGCONT)


def test_interrupt_signal_is_ignored_by_workers(pool: RayPool) -> None:
    for report in pool.workers():
        os.kill(report.pid, signal.SIGINT)
    assert [answer(event) for event in outcomes(pool, lease(1, "sleep 0.2"), lease(2, "sleep 0.2"))] == ["sleep 0.2"] * 2


def test_nothing_is_printed_when_workers_die(pool: RayPool, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes(pool, lease(1, "exit"), lease(2, "exit"))
    wait_until(pool, lambda _: pool.slots() == 2)
    assert capfd.readouterr() == ("", "")


def test_submit_without_an_idle_worker_is_a_bug(pool: RayPool) -> None:
    pool.submit(lease(1, "sleep 0.5"))
    pool.submit(lease(2, "sleep 0.5"))
    with pytest.raises(RuntimeError, match="without an idle worker"):
        pool.submit(lease(3, "pid"))

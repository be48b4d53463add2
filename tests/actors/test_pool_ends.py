"""How pools begin and end: each test has an embedded cluster of its own, or none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from lease_work import execute, lease

from actors.cluster import _descendants, _start_time
from actors.executor import Event, Joined, Left, WorkerSpec
from actors.pool import PoolSettings, RayPool
from schemas.errors import ClusterUnreachable, InvalidInput

SPEC = WorkerSpec("builtin", "official", threads=1)


@pytest.mark.slow
def test_close_waits_for_leases_and_leaves_no_process() -> None:
    children = set(_descendants(os.getpid()))
    pool = RayPool(SPEC, execute, PoolSettings(actors=1))
    pool.start()
    pool.submit(lease(1, "sleep 0.5"))
    own = {pid: start for pid, start in _descendants(os.getpid()).items() if pid not in children}
    assert pool.workers()[0].pid in own
    pool.close()
    pool.close()
    assert [pid for pid, start in own.items() if _start_time(pid) == start] == []
    assert (pool.slots(), list(pool.workers())) == (0, [])


@pytest.mark.slow
def test_unusable_checkpoint_is_told_at_the_start(tmp_path: Path) -> None:
    pool = RayPool(WorkerSpec(str(tmp_path), "official", threads=1), execute, PoolSettings(actors=1))
    with pytest.raises(InvalidInput) as error:
        pool.start()
    assert error.value.file.startswith(str(tmp_path))
    assert list(pool.workers()) == []


@pytest.mark.slow
def test_workers_that_cannot_start_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Ray puts the driver's working directory before PYTHONPATH
    (tmp_path / "actors").mkdir()
    (tmp_path / "actors" / "__init__.py").write_text("raise ImportError('half an installation')")
    monkeypatch.setattr("actors.pool._actor_environment", lambda threads: {"PYTHONPATH": str(tmp_path)})
    with (
        closing(RayPool(SPEC, execute, PoolSettings(actors=1, start_failures=2))) as pool,
        pytest.raises(ClusterUnreachable, match=r"2 workers in a row did not start; the last: .*half an installation"),
    ):
        pool.start()


@pytest.mark.slow
def test_a_slot_that_was_given_up_is_tried_again(tmp_path: Path) -> None:
    """As when a host comes back: by then its slots have used up their starts."""
    with closing(RayPool(SPEC, execute, PoolSettings(actors=2, start_failures=1, again=3.0))) as pool:
        pool.start()
        pool.wait(0)
        pool._spec = replace(SPEC, checkpoint=str(tmp_path))
        pool.submit(lease(1, "exit"))
        events = events_until(pool, lambda event: isinstance(event, Left) and "did not start" in event.reason)
        assert str(tmp_path) in str(events[-1])
        pool._spec = SPEC
        events_until(pool, lambda event: isinstance(event, Joined))
        assert len(pool.workers()) == 2


def events_until(pool: RayPool, last: Callable[[Event], bool]) -> list[Event]:
    events: list[Event] = []
    end = time.monotonic() + 60
    while not any(last(event) for event in events):
        assert time.monotonic() < end, events
        events += pool.wait(0.2)
    return events


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nosuch.invalid:6379"])
def test_address_without_cluster(address: str) -> None:
    with pytest.raises(ClusterUnreachable, match=f"nothing answers at {address}"):
        RayPool(SPEC, execute, PoolSettings(address=address)).start()


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "local", "here", ":6379", "host:port"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidInput, match=r'allowed: "auto" or HOST:PORT'):
        RayPool(SPEC, execute, PoolSettings(address=address)).start()


def test_close_before_start() -> None:
    RayPool(SPEC, execute).close()

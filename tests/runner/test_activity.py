"""What can be said of a run from its events, while they are being written."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny_run import DirectedExecutor, drive, experiment, worker_report

from runner.activity import Activity
from runner.events import EventsReader, read_events
from runner.local_storage import LocalStorage

LEASE = {"stage": "s", "worker": "w0", "host": "here", "attempts": [1, 1], "units": ["a", "b"]}


def at(second: float, event: str, **fields: Any) -> dict[str, Any]:
    return {"time": f"2026-01-01T00:00:{second:06.3f}+00:00", "event": event, **fields}


PLANNED = at(0, "planned", stage="s", units=10, reasons={"new": 9, "done": 1})


def active(*events: dict[str, Any]) -> Activity:
    activity = Activity(clock=lambda: 0.0)
    activity.feed(events)
    return activity


def test_units_are_counted_by_stage_and_by_host() -> None:
    activity = active(
        at(0, "joined", worker="w0", host="here"),
        at(0, "joined", worker="w1", host="there"),
        PLANNED,
        at(1, "leased", lease=0, **LEASE),
        at(1, "leased", lease=1, **LEASE | {"worker": "w1", "host": "there"}),
        at(3, "done", lease=0, new=2, seconds=1.5, **LEASE),
        at(4, "failed", lease=1, kind="crash", error="dead", detail="", seconds=3.0, **LEASE | {"worker": "w1", "host": "there"}),
        at(4, "left", worker="w1", host="there", reason="dead"),
        at(4, "set_aside", stage="s", prompt_id="p", kind="crash", error="dead", strikes=3),
        at(5, "leased", lease=2, **LEASE),
    )
    assert activity.stage is not None
    assert (activity.stage.total, activity.stage.done, activity.stage.failed, activity.stage.left) == (10, 3, 1, 6)
    assert activity.in_flight == 2
    assert (activity.hosts["here"].done, activity.hosts["here"].seconds) == (2, 1.5)
    assert (activity.hosts["there"].workers, activity.hosts["there"].failed_leases) == (set(), 1)
    assert list(activity.set_aside) == ["prompt p in stage s: crash after 3 tries: dead"]


def test_rate_and_time_left_are_those_of_late() -> None:
    activity = active(
        PLANNED, at(2, "done", lease=0, new=2, seconds=1, **LEASE), at(4, "done", lease=1, new=2, seconds=1, **LEASE)
    )
    assert activity.rate() == 1.0
    assert activity.seconds_left() == 5.0
    moment = [0.0]
    waiting = Activity(clock=lambda: moment[0])
    waiting.feed([PLANNED, at(2, "done", lease=0, new=2, seconds=1, **LEASE)])
    moment[0] = 8.0
    assert waiting.rate() == 0.2
    moment[0] = 70.0
    assert (waiting.rate(), waiting.seconds_left()) == (0.0, None)


def test_a_new_driver_has_nothing_in_flight_and_a_retry_takes_failures_back() -> None:
    activity = active(
        PLANNED,
        at(1, "leased", lease=0, **LEASE),
        at(2, "set_aside", stage="s", prompt_id="p", kind="crash", error="dead", strikes=3),
        at(3, "started", host="here", pid=1),
        at(3, "cleared", stage="s", units=["a"]),
    )
    assert activity.in_flight == 0
    assert activity.stage is not None
    assert activity.stage.failed == 0


def test_a_worker_that_did_not_start_is_on_no_host() -> None:
    assert not active(at(1, "left", worker="w0", host="", reason="did not start: no such file")).hosts


@pytest.mark.parametrize("odd", [{}, {"event": "done"}, at(1, "done"), at(1, "done", lease=[], stage="s"), at(1, "unheard-of")])
def test_what_is_not_understood_is_passed_over(odd: dict[str, Any]) -> None:
    assert active(odd, PLANNED).stage is not None


def test_every_split_of_the_log_into_reads_gives_the_same_events(tmp_path: Path) -> None:
    """A reader may come at any byte of a line that is being written, a letter of several bytes included."""
    whole = "".join(json.dumps({"event": "e", "text": text}, ensure_ascii=False) + "\n" for text in ("朋友", "b")).encode()
    for cut in range(len(whole) + 1):
        log = tmp_path / f"{cut}.log"
        log.write_bytes(whole[:cut])
        reader = EventsReader(partial(LocalStorage().read_appended, log))
        first = [*reader.new()]
        log.write_bytes(whole)
        assert [event["text"] for event in [*first, *reader.new()]] == ["朋友", "b"]
        assert list(reader.new()) == []
    assert list(EventsReader(partial(LocalStorage().read_appended, tmp_path / "none")).new()) == []


def test_the_events_of_a_run_add_up_to_what_its_store_holds(tmp_path: Path) -> None:
    executor = DirectedExecutor(
        trouble=lambda lease: "crash" if any(unit.prompt_id == "p3" for unit in lease.units) else None,
        joining=[worker_report("w0"), worker_report("w1")],
    )
    store = drive(tmp_path, executor, about=experiment(batch=2))
    activity = Activity()
    activity.feed(read_events(LocalStorage(), tmp_path / "events.log"))
    for stage in ("4", "8"):
        one = activity.stages[stage]
        assert (one.total, one.done, one.failed) == (
            len(store.planned_keys(stage)),
            len(store.units(stage)),
            len(store.failures(stage)),
        )
    assert activity.in_flight == 0
    assert activity.hosts["here"].done == len(store.units("4")) + len(store.units("8"))

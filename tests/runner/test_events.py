"""The events log: what happened when and where, readable whatever tore it."""

from __future__ import annotations

from pathlib import Path

from tiny_run import DirectedExecutor, drive

from runner.events import EventsLog, read_events
from runner.local_storage import LocalStorage


def test_events_are_read_in_order_with_their_time(tmp_path: Path) -> None:
    with EventsLog(LocalStorage(), tmp_path / "events.log") as events:
        events.write("done", worker="w0")
        events.write("left", reason="two\nlines")
    read = list(read_events(LocalStorage(), tmp_path / "events.log"))
    assert [event["event"] for event in read] == ["done", "left"]
    assert all(event["time"].endswith("+00:00") for event in read)


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    with EventsLog(LocalStorage(), tmp_path / "events.log") as events:
        events.write("done")
    with (tmp_path / "events.log").open("a") as log:
        log.write('{"time": "20')
    assert [event["event"] for event in read_events(LocalStorage(), tmp_path / "events.log")] == ["done"]


def test_the_next_driver_writes_behind_a_torn_line_and_not_into_it(tmp_path: Path) -> None:
    (tmp_path / "events.log").write_text('{"time": "20')
    for worker in ("w0", "w1"):
        with EventsLog(LocalStorage(), tmp_path / "events.log") as events:
            events.write("left", worker=worker)
    assert [event["worker"] for event in read_events(LocalStorage(), tmp_path / "events.log")] == ["w0", "w1"]


def test_a_run_without_events_has_none(tmp_path: Path) -> None:
    assert list(read_events(LocalStorage(), tmp_path / "events.log")) == []


def test_every_attempt_of_a_unit_is_told_with_worker_and_duration(tmp_path: Path) -> None:
    crashes = iter(["crash"])
    drive(tmp_path, DirectedExecutor(trouble=lambda lease: next(crashes, None)))  # type: ignore[arg-type]
    events = list(read_events(LocalStorage(), tmp_path / "events.log"))
    failed = next(event for event in events if event["event"] == "failed")
    done = [event for event in events if event["event"] == "done" and set(event["units"]) & set(failed["units"])]
    assert failed["kind"] == "crash"
    assert failed["detail"] == "the whole story"
    assert (done[0]["worker"], failed["worker"]) == ("w0", "w0")
    assert failed["attempts"] == [1] * len(failed["units"])
    assert all(event["attempts"] == [2] * len(event["units"]) for event in done)
    assert failed["seconds"] >= 0
    assert done[0]["seconds"] > 0

"""`runner status --watch` beside a driver that works."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from small_job import Command

from runner.claim import Claim
from runner.cli import watch
from runner.events import EventsLog
from runner.run import Run, open_run

HOST = "a-host-with-a-name-that-is-so-long-that-a-line-of-a-hundred-columns-does-not-hold-it"
LEASE = {"stage": "horizon-4", "worker": "w0", "host": HOST, "units": ["a"], "attempts": [1]}


class Driver:
    """Works while the reader sleeps: a lease a look, then it ends. Stands in for `time` in the view."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.claim = Claim(run.store.storage, run.paths)
        self.claim.__enter__()
        self.events = EventsLog(run.store.storage, run.paths.events)
        self.events.write("started", host=HOST, pid=1)
        self.events.write("joined", host=HOST, worker="w0")
        self.events.write("planned", stage="horizon-4", units=40, reasons={"new": 40})
        self.now = 0

    def monotonic(self) -> float:
        return float(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += 1
        self.events.write("leased", lease=self.now, **LEASE)
        if self.now > 1:
            self.events.write("done", lease=self.now - 1, new=1, seconds=0.02, **LEASE)
        if self.now == 25:
            self.claim.__exit__(None, None, None)


@pytest.fixture
def driver(submitted: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver(open_run(submitted))
    monkeypatch.setattr(watch, "time", driver)
    return driver


def test_elsewhere_than_on_a_terminal_there_is_a_line_an_interval(run: Command, driver: Driver) -> None:
    ended = run("status", driver.run.paths.root, "--watch")
    assert ended.code == 0
    lines = [line for line in ended.out.splitlines() if line.startswith("stage horizon-4: ")]
    assert [line.partition(" units")[0] for line in lines] == [f"stage horizon-4: {done}/40" for done in (0, 9, 19)]
    assert f", 1 in flight; workers: 1 on {HOST}, " in lines[1]
    assert " units/s, about " in lines[1]
    assert "\x1b" not in ended.out
    assert "finished" in ended.out  # in the end the store is asked


def test_on_a_terminal_tables_of_stages_and_hosts_are_live(driver: Driver) -> None:
    out = io.StringIO()
    watch.watch_run(Console(file=out, force_terminal=True, width=120, height=40), driver.run)
    assert "seconds a unit" in out.getvalue()
    assert "stage horizon-4: 23/40 units done" in out.getvalue()


def test_without_a_driver_nothing_is_waited_for(run: Command, submitted: Path) -> None:
    ended = run("status", submitted, "--watch")
    assert (ended.code, "finished" in ended.out) == (0, True)

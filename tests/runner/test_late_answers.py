"""Answers that are delayed, doubled, reordered or lost: for every seed the same bytes, and every unit counted once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from faulty_executor import FaultyExecutor, Rates, SeededClock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_run import DirectedExecutor, TinyProtocol, drive, execute, experiment, open_reader, rows

from actors.executor import Done, Event, Failed, Left
from runner.events import read_events
from runner.interrupt import Interrupt, Interrupted
from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.retry_request import RetryRequest
from runner.store import RunStore
from schemas.errors import ConformanceFinding
from schemas.unit import Lease, UnitResult

ABOUT = experiment(prompts=14, batch=4)
SEEDS = st.integers(0, 2**32)


@dataclass
class Counting:
    """Progress that only counts."""

    totals: Counter[str] = field(default_factory=Counter)

    def stage(self, name: str, *, total: int, done: int, failed: int) -> None:
        self.totals["planned"] += total - done - failed

    def committed(self, units: int) -> None:
        self.totals["committed"] += units

    def set_aside(self, units: int) -> None:
        self.totals["set aside"] += units

    def cleared(self, units: int) -> None:
        self.totals["cleared"] += units

    def working(self, *, in_flight: int, workers: int) -> None:
        assert in_flight <= self.totals["planned"] - self.totals["committed"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("undisturbed")
    drive(root, about=ABOUT)
    return rows(root)


def drive_faulty(root: Path, executor: FaultyExecutor, interrupt: Interrupt | None = None) -> tuple[RunStore, Counting]:
    counted = Counting()
    how = {"clock": executor.clock, "progress": counted, "interrupt": interrupt, "group_seconds": executor.seed % 3 * 20.0}
    return drive(root, executor, about=ABOUT, **how), counted


def counted_once(store: RunStore) -> None:
    """Every unit stands once in the journal and once in the events, and none is set aside."""
    store = open_reader(store)  # which refuses a unit that stands twice
    for stage in ("4", "8"):
        assert store.units(stage) == set(store.planned_keys(stage))
        assert not store.failures(stage)
    done = Counter(
        unit for event in read_events(store.storage, store.paths.events) if event["event"] == "done" for unit in event["units"]
    )
    assert set(done.values()) == {1}


@given(seed=SEEDS, workers=st.integers(1, 5))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_seed_gives_the_same_bytes_and_counts_each_unit_once(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], seed: int, workers: int
) -> None:
    root = tmp_path_factory.mktemp("faulty")
    store, counted = drive_faulty(root, FaultyExecutor(seed, SeededClock(), workers))
    assert rows(root) == undisturbed
    counted_once(store)
    units = sum(len(store.units(stage)) for stage in ("4", "8"))
    assert counted.totals == {"planned": units, "committed": units}


def test_the_seeds_do_all_of_this(tmp_path: Path) -> None:
    happened: Counter[str] = Counter()
    late = 0
    for seed in range(10):
        executor = FaultyExecutor(seed, SeededClock())
        store, _ = drive_faulty(tmp_path / str(seed), executor)
        happened += executor.happened
        late += sum(event["event"] == "late" for event in read_events(store.storage, store.paths.events))
    assert min(happened[what] for what in ("dropped", "duplicated", "given away", "crashed")) >= 5
    assert late >= 10


def test_an_answer_from_an_earlier_stage_is_not_taken_for_one_of_this(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """Everything is given away once and answered so late that the next stage is in work by then."""
    executor = FaultyExecutor(3, SeededClock(), rates=Rates(0, 0, 60, 0), longest_delay=3.0)
    store, _ = drive_faulty(tmp_path, executor)
    late = [event["stage"] for event in read_events(store.storage, store.paths.events) if event["event"] == "late"]
    assert "4" in late
    assert rows(tmp_path) == undisturbed


def test_an_answer_that_is_lost_costs_no_strike(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    executor = FaultyExecutor(1, SeededClock(), rates=Rates(0, 50, 0, 0))
    store, _ = drive_faulty(tmp_path, executor)
    lost = [event for event in read_events(store.storage, store.paths.events) if event["event"] == "failed"]
    assert {(event["kind"], event["error"].partition(": ")[2]) for event in lost} == {
        ("infrastructure", "no answer within 780 s")
    }
    assert rows(tmp_path) == undisturbed


def other_bytes(lease: Lease) -> list[UnitResult]:
    return execute(None, [replace(unit, payload={"text": unit.payload["text"] + "!"}) for unit in lease.units])


def test_other_bytes_in_a_late_answer_stop_the_run(tmp_path: Path) -> None:
    executor = FaultyExecutor(0, SeededClock(), rates=Rates(duplicated=100), late_bytes=other_bytes)
    with pytest.raises(ConformanceFinding, match="executed again it gave other bytes"):
        drive_faulty(tmp_path, executor)


@dataclass
class Overdue(DirectedExecutor):
    """Gives each of the first `away` leases with prompt p3 away, and delivers what came of the last of them right after that."""

    away: int = 1

    def wait(self, timeout: float) -> list[Event]:
        events = super().wait(timeout)
        for event in events:
            if isinstance(event, Done) and self.away and any(unit.prompt_id == "p3" for unit in event.lease.units):
                self.away -= 1
                given_away = Failed(event.lease, "deadline", "ran longer than 1 s", "", "w0")
                late = replace(event, results=other_bytes(event.lease))
                return [given_away, Left("w0", "ran longer than 1 s"), *([] if self.away else [late])]
        return events


def answers_too_late(root: Path) -> list[str]:
    return [event["answer"] for event in read_events(LocalStorage(), root / "events.log") if event["event"] == "late"]


def test_a_late_answer_commits_nothing(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """Its bytes are others, and nothing is there yet that would contradict them."""
    drive(tmp_path, Overdue(away=1), about=ABOUT)
    assert answers_too_late(tmp_path) == ["done"]
    assert rows(tmp_path) == undisturbed


def test_a_unit_that_was_set_aside_stays_so_when_its_answer_comes_too_late(tmp_path: Path) -> None:
    store = drive(tmp_path, Overdue(away=3), about=experiment(batch=1))
    assert answers_too_late(tmp_path) == ["done"]
    assert [one.prompt_id for one in store.failures("4").values()] == ["p3"]
    assert len(store.units("4")) == 5


@given(seed=SEEDS, turn=st.integers(1, 60), signals=st.lists(st.sampled_from(Interrupt.SIGNALS), min_size=1, max_size=2))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_signal_with_work_in_flight_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], seed: int, turn: int, signals: list[signal.Signals]
) -> None:
    root = tmp_path_factory.mktemp("interrupted")
    executor = FaultyExecutor(seed, SeededClock())
    turns = iter(range(1, 1_000_000))

    def press() -> None:
        if next(turns) == turn:
            for number in signals:
                os.kill(os.getpid(), number)

    executor.before = press
    with Interrupt(lambda: None) as interrupt:
        try:
            drive_faulty(root, executor, interrupt)
        except Interrupted:
            events = list(read_events(LocalStorage(), root / "events.log"))
            if len(signals) == 1:  # what was handed over was waited for
                leased = {event["lease"] for event in events if event["event"] == "leased"}
                assert leased == {event["lease"] for event in events if event["event"] in ("done", "failed")}
    store, _ = drive_faulty(root, FaultyExecutor(seed + 1, SeededClock()))
    assert rows(root) == undisturbed
    counted_once(store)


@given(seed=SEEDS, turn=st.integers(1, 400), harmful=st.sets(st.sampled_from(["p0", "p5", "p8", "p13"]), min_size=1))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_retry_at_any_moment_ends_with_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], seed: int, turn: int, harmful: set[str]
) -> None:
    """Harmful units are set aside; at some turn, if it is not over by then, the cause is removed and they are asked for again."""
    root = tmp_path_factory.mktemp("retried")
    executor = FaultyExecutor(seed, SeededClock(), harmful=set(harmful))
    turns = iter(range(1, 1_000_000))

    def remove_the_cause() -> None:
        if next(turns) == turn:
            executor.harmful.clear()
            RetryRequest(RunStore(RunPaths(root), TinyProtocol().schemas())).make()

    executor.before = remove_the_cause
    store, _ = drive_faulty(root, executor)
    if store.failures("4"):  # it was over before the cause was gone
        RetryRequest(store).make()
        store, _ = drive_faulty(root, FaultyExecutor(seed, SeededClock()))
    assert rows(root) == undisturbed
    assert not RetryRequest(store).pending()
    counted_once(store)

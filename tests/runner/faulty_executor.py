"""An executor on a clock of its own that delays, doubles, reorders and drops answers and gives leases away, all from one seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tiny_run import execute, worker_report

from actors.executor import Done, Event, Failed, FailureKind, Joined, Left, WorkerReport
from schemas.unit import Lease, UnitResult

INNOCENT_STRIKES = 2
"""Strikes that a unit can have without any harm in it: one fewer than set it aside."""


class SeededClock:
    """Seconds that pass only when the executor waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Rates:
    """How often of a hundred leases each thing happens; what is left is answered once, after a delay."""

    duplicated: int = 20
    dropped: int = 5
    given_away: int = 15
    crashed: int = 10


@dataclass
class FaultyExecutor:
    """Implements `actors.executor.Executor`. A lease that was given away may be answered all the same, at any later time.

    before: called ahead of each `wait`, so that a test can do something while leases are in flight. late_bytes: what an answer
    that comes for the second time, or too late, is turned into. harmful: prompts whose units crash every worker.
    """

    seed: int
    clock: SeededClock
    workers_alive: int = 3
    rates: Rates = field(default_factory=Rates)
    longest_delay: float = 30.0
    before: Callable[[], None] = lambda: None
    late_bytes: Callable[[Lease], list[UnitResult]] | None = None
    harmful: set[str] = field(default_factory=set)
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._due: list[tuple[float, Event]] = []
        self._idle = [f"w{number}" for number in range(self.workers_alive)]
        self._busy: dict[int, str] = {}
        self._strikes: Counter[str] = Counter()

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        self._due += [(0.0, Joined(report)) for report in self.workers()]

    def slots(self) -> int:
        return len(self._idle)

    def workers(self) -> Sequence[WorkerReport]:
        return [worker_report(f"w{number}") for number in range(self.workers_alive)]

    def submit(self, lease: Lease) -> str:
        worker = self._idle.pop(self._random.randrange(len(self._idle)))
        self._busy[lease.lease_id] = worker
        done = Done(lease, execute(None, lease.units), worker, 0.1 * len(lease.units))
        self._answer(lease, worker, done)
        return worker

    def wait(self, timeout: float) -> list[Event]:
        self.before()
        # With nothing to come it is the driver's own patience that the run waits for.
        self.clock.now += timeout if self._due else 60.0
        due = [event for moment, event in self._due if moment <= self.clock.now]
        self._due = [(moment, event) for moment, event in self._due if moment > self.clock.now]
        self._random.shuffle(due)
        for event in due:
            if isinstance(event, Done | Failed) and event.lease.lease_id in self._busy:
                self._idle.append(self._busy.pop(event.lease.lease_id))
        return due

    def close(self, *, kill: bool = False) -> None:
        self._due.clear()

    def _answer(self, lease: Lease, worker: str, done: Done) -> None:
        if any(unit.prompt_id in self.harmful for unit in lease.units):
            self._later(Failed(lease, "crash", "crash in lease", "the whole story", worker))
            return
        drawn = self._random.randrange(100)
        rates = self.rates
        if drawn < rates.dropped:
            self.happened["dropped"] += 1
            self._idle.append(self._busy.pop(lease.lease_id))
        elif (drawn := drawn - rates.dropped) < rates.duplicated:
            self.happened["duplicated"] += 1
            self._later(done)
            self._later(self._second(done))
        elif (drawn := drawn - rates.duplicated) < rates.given_away:
            self.happened["given away"] += 1
            failed = self._fail(lease, worker, "deadline")
            self._later(failed)
            self._later(Left(worker, failed.error))
            if self._random.random() < 0.7:
                self._later(self._second(done), at_least=self.longest_delay)
        elif drawn - rates.given_away < rates.crashed:
            self.happened["crashed"] += 1
            failed = self._fail(lease, worker, "crash")
            self._later(failed)
            if self._random.random() < 0.5:
                self._later(failed)
        else:
            self._later(done)

    def _fail(self, lease: Lease, worker: str, kind: FailureKind) -> Failed:
        """Of this kind as long as no unit of the lease is set aside for it."""
        if max(self._strikes[unit.key] for unit in lease.units) >= INNOCENT_STRIKES:
            return Failed(lease, "infrastructure", "the worker's node is gone", "", worker)
        self._strikes.update(unit.key for unit in lease.units)
        return Failed(lease, kind, f"{kind} in lease", "the whole story", worker)

    def _second(self, done: Done) -> Done:
        return done if self.late_bytes is None else replace(done, results=self.late_bytes(done.lease))

    def _later(self, event: Event, at_least: float = 0.0) -> None:
        self._due.append((self.clock.now + at_least + self._random.random() * self.longest_delay, event))

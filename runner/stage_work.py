"""One stage being worked off. At any time a unit is in one of five places: queue, in flight, answered and waiting for its group
to be committed, committed, set aside.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from actors.executor import Done, Executor, Failed, Joined, Left, WorkerReport
from runner.commit import Committer
from runner.failure import Failure
from runner.finding import Finding, keep_finding
from runner.in_flight import InFlight
from runner.interrupt import Interrupt, Interrupted
from runner.leases import LeaseQueue
from runner.store import RunStore
from runner.telemetry import Telemetry
from schemas.errors import ClusterUnreachable, ConformanceFinding, RunBusy, RunnerError
from schemas.unit import Unit

STRIKES = 3
"""A unit is set aside when this many leases with it crashed, overran, ran out of memory or raised; the last had it alone."""

INFRASTRUCTURE_BUDGET = 20
"""Losses of workers to hosts or network in a row, without a result between them, before the run gives up: at least so many."""

LOSSES_PER_WORKER = 5
"""And so many for each worker there was: one host takes all of its workers along at once."""

LOSSES_BEFORE_LAST = 2
"""Losses of a host with a unit in hand after which it waits for all others: it may be what the hosts are lost of."""

GRACE_SECONDS = 180.0
"""How much longer than a lease's deadline, which the executor enforces, the driver waits for an executor that lost the lease."""

_WAIT_SECONDS = 0.2

Cleared = Callable[[], Collection[str]]
"""Asked again and again: keys of this stage's units that were set aside and are to be tried again."""


class StageWork:
    """Leases, commits and retries the units of one stage.

    units: all of the stage. admit: raises for a worker that may not work on this run. deadline: seconds a lease may take.
    """

    def __init__(
        self,
        store: RunStore,
        committer: Committer,
        stage: str,
        units: Sequence[Unit],
        executor: Executor,
        *,
        telemetry: Telemetry,
        interrupt: Interrupt,
        admit: Callable[[WorkerReport], None],
        cleared: Cleared,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._committer = committer
        self._waiting: list[Done] = []
        self._stage = stage
        self._units = units
        self._executor = executor
        self._telemetry = telemetry
        self._interrupt = interrupt
        self._admit = admit
        self._cleared = cleared
        self._in_flight = InFlight(deadline + GRACE_SECONDS, clock)
        self._strikes: Counter[str] = Counter()
        self._unit_losses: Counter[str] = Counter()
        self._losses = 0
        self._most_workers = 0

    def run(self, todo: Sequence[Unit], *, largest: int, first_lease: int) -> int:
        """Work off `todo` and what is cleared meanwhile, in leases of at most `largest` units; returns the next free lease ID."""
        queue = self._queue = LeaseQueue(todo, largest=largest, first_id=first_lease)
        try:
            self._work_off(queue)
        except RunBusy:
            raise  # what waits is not ours to commit any more
        except RunnerError:
            self._commit()
            raise
        return queue.next_id

    def _work_off(self, queue: LeaseQueue) -> None:
        self._wait(0)  # whoever is there is admitted before it gets work
        while queue or self._in_flight:
            self._hand_out()
            if self._interrupt.requested and not self._in_flight:
                self._commit()
                raise Interrupted(f"interrupted in stage {self._stage}; what was in flight is committed")
            self._wait(_WAIT_SECONDS)
            for held in self._in_flight.overdue():
                error = f"{held.worker}: no answer within {self._in_flight.patience:g} s"
                self._take_in([Failed(held.lease, "infrastructure", error, "", held.worker)])
            if self._committer.due():
                self._commit()
            self._try_cleared()
            self._telemetry.working(in_flight=self._in_flight.units, workers=len(self._executor.workers()))
        self._commit()

    def _wait(self, seconds: float) -> None:
        answers: list[Done | Failed] = []
        for event in self._executor.wait(seconds):
            match event:
                case Joined(report):
                    self._telemetry.joined(report)
                    self._admit(report)
                case Left(worker, reason):
                    self._telemetry.left(worker, reason)
                case _:
                    answers.append(event)
        self._take_in(answers)

    def _hand_out(self) -> None:
        while self._queue and self._executor.slots() and not self._interrupt.requested:
            workers = len(self._executor.workers())
            self._most_workers = max(self._most_workers, workers)
            lease = self._queue.take(workers)
            self._telemetry.leased(self._in_flight.add(lease, self._executor.submit(lease)))

    def _take_in(self, answers: Sequence[Done | Failed]) -> None:
        """Hand what was done to the committer; then see to what failed, and to what came too late."""
        placed = [(answer, self._in_flight.take(answer.lease)) for answer in answers]
        self._hand_out()  # whoever is idle again need not wait for our disk
        for answer, held in placed:
            if held is None:
                self._late(answer)
            elif isinstance(answer, Done):
                self._done(answer)
            else:
                self._failed(answer, self._in_flight.seconds(held))

    def _done(self, answer: Done) -> None:
        self._committer.add(self._stage, answer.results, seconds=answer.seconds)
        self._waiting.append(answer)
        self._queue.measured(len(answer.results), answer.seconds)
        self._losses = 0

    def _commit(self) -> None:
        """Commit what waits; only then it is told as done."""
        new = self._committer.commit()
        for answer in self._waiting:
            self._telemetry.done(answer, sum(result.key in new for result in answer.results))
        self._waiting.clear()

    def _late(self, answer: Done | Failed) -> None:
        """Count nothing of an answer for a lease that was given away, but hold it to what is done by now: the same bytes."""
        self._telemetry.late(answer)
        if isinstance(answer, Done):
            self._committer.compare(answer.lease.units[0].stage, answer.results)
        elif answer.kind == "finding":
            self._found(answer)

    def _failed(self, answer: Failed, seconds: float) -> None:
        self._telemetry.failed(answer, seconds)
        if answer.kind == "finding":
            self._found(answer)
        elif answer.kind == "infrastructure":
            self._lost(answer)
        else:
            self._strike(answer)

    def _lost(self, answer: Failed) -> None:
        self._losses += 1
        if self._losses > max(INFRASTRUCTURE_BUDGET, LOSSES_PER_WORKER * self._most_workers):
            raise ClusterUnreachable(f"{self._losses} workers lost in a row without a result; the last: {answer.error}")
        units = answer.lease.units
        self._unit_losses.update(unit.key for unit in units)
        self._queue.put_back([unit for unit in units if self._unit_losses[unit.key] < LOSSES_BEFORE_LAST])
        self._queue.put_last([unit for unit in units if self._unit_losses[unit.key] >= LOSSES_BEFORE_LAST])

    def _strike(self, failed: Failed) -> None:
        """Every unit of the lease is suspect and goes on alone, so that only the one that does harm reaches the limit."""
        units = failed.lease.units
        self._strikes.update(unit.key for unit in units)
        if len(units) == 1 and self._strikes[units[0].key] >= STRIKES:
            unit = units[0]
            failure = Failure(unit.key, unit.prompt_id, failed.kind, failed.error, failed.detail, self._strikes[unit.key])
            self._committer.set_aside(self._stage, failure)
            self._telemetry.set_aside(self._stage, failure, failed.worker)
        else:
            self._queue.put_alone(units)

    def _try_cleared(self) -> None:
        keys = self._cleared()
        if keys:
            for key in keys:
                del self._strikes[key]
            self._queue.put_alone([unit for unit in self._units if unit.key in keys])

    def _found(self, failed: Failed) -> NoReturn:
        units = tuple(unit.key for unit in failed.lease.units)
        finding = Finding(failed.lease.units[0].stage, "worker", failed.error, failed.detail, failed.worker, units)
        raise kept(self._store, self._telemetry, finding)


def kept(store: RunStore, telemetry: Telemetry, finding: Finding) -> ConformanceFinding:
    """Keep a finding, so that no later command takes the run for a good one; returns what the run is to end with."""
    path = keep_finding(store, finding)
    telemetry.finding(path.name, finding)
    return ConformanceFinding(f"{finding.message}; kept as {path}")

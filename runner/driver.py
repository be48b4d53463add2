"""The loop of a run: stages in order; in each, plan, lease, commit as results arrive, retry. It alone decides what runs again.

What the driver knows is in the store; killing it at any moment loses at most the leases in flight, and the next
driver goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from actors.executor import Done, Event, Executor, Failed, Joined, Left, WorkerReport
from actors.fleet import require_recorded
from runner.commit import commit
from runner.events import EventsLog
from runner.finding import Finding, keep_finding
from runner.interrupt import Interrupt, Interrupted
from runner.leases import LeaseQueue
from runner.plan import plan_stage, write_plan
from runner.progress import Progress
from runner.protocol import Experiment, ExperimentProtocol
from runner.store import Failure, RunStore
from schemas.errors import ClusterUnreachable, ConformanceFinding, UnitsFailed
from schemas.unit import Lease, Unit

STRIKES = 3
"""A unit is set aside when this many leases with it crashed, overran, ran out of memory or raised; the last had it alone."""

INFRASTRUCTURE_BUDGET = 20
"""Losses of hosts or network in a row, without a result between them, before the run gives up."""

_WAIT_SECONDS = 0.2


class Driver:
    """Drives the run of `store` to its end. Precondition: the caller holds the run's claim, and the store was recovered under it.

    build_id: the kernels that the run was started with; a worker with others gets no result committed. The executor is started
    when the first unit needs it and closed on the way out, whatever that is.
    """

    def __init__(
        self,
        store: RunStore,
        protocol: ExperimentProtocol,
        experiment: Experiment,
        executor: Executor,
        *,
        build_id: str,
        events: EventsLog,
        progress: Progress,
        interrupt: Interrupt,
    ) -> None:
        self._store = store
        self._protocol = protocol
        self._experiment = experiment
        self._executor = executor
        self._build_id = build_id
        self._events = events
        self._progress = progress
        self._interrupt = interrupt
        self._started = False
        self._next_lease = 0

    def run(self) -> None:
        """Run every stage. Units that had to be set aside are in the failure logs on return, everything else is committed.

        Raises ConformanceFinding (executed again a unit gave other bytes, a worker found a contradiction, or a check of the
        protocol fails), which is on disk by then; UnitsFailed before a stage that cannot be planned without units that were set
        aside; InvalidInput for a worker that has not what the run was started with; ClusterUnreachable, Interrupted.
        """
        ended = False
        try:
            for stage in self._protocol.stages(self._experiment.job):
                self._run_stage(stage)
                self._check(stage)
            ended = True
        finally:
            self._executor.close(kill=not ended)

    def _run_stage(self, stage: str) -> None:
        self._require_complete(stage)
        units = self._protocol.units(self._experiment, stage, self._store)
        planned = plan_stage(self._store, stage, units)
        write_plan(self._store, stage, planned)
        self._store.commit_log(stage).create()
        self._store.failure_log(stage).create()
        reasons = Counter(unit.reason for unit in planned)
        self._events.write("planned", stage=stage, units=len(planned), reasons=dict(reasons))
        self._progress.stage(stage, total=len(planned), done=reasons["done"], failed=reasons["failed"])
        todo = [one.unit for one in planned if one.reason in ("new", "stale")]
        if todo:
            if not self._started:
                self._executor.start()
                self._started = True
            self._work_off(stage, todo)

    def _require_complete(self, stage: str) -> None:
        """Raise before a stage is planned from a part of what it is to be chosen from: its plan would change with the rest."""
        for needed in self._protocol.needs_complete.get(stage, ()):
            failures = self._store.failures(needed)
            if failures:
                first = next(iter(failures.values())).told(needed)
                raise UnitsFailed(
                    f"stage {stage} needs every unit of stage {needed}; units set aside: {len(failures)}; the first: {first}; "
                    f"once the cause is gone, `runner retry {self._store.paths.root} --failed` goes on"
                )

    def _work_off(self, stage: str, units: Sequence[Unit]) -> None:
        """Lease, commit and retry until every unit is committed or set aside."""
        queue = LeaseQueue(units, largest=self._experiment.job.execution.batch, first_id=self._next_lease)
        in_flight: dict[int, Lease] = {}
        strikes: Counter[str] = Counter()
        losses = 0
        while queue or in_flight:
            self._hand_out(queue, in_flight)
            if self._interrupt.requested and not in_flight:
                raise Interrupted(f"interrupted in stage {stage}; what was in flight is committed")
            for event in self._executor.wait(_WAIT_SECONDS):
                self._log(event)
                if isinstance(event, Joined):
                    self._require_recorded(event.report)
                self._hand_out(queue, in_flight)  # whoever is idle again need not wait for our disk
                if isinstance(event, Done):
                    in_flight.pop(event.lease.lease_id, None)
                    outcome = commit(self._store, stage, event.results)
                    queue.measured(len(event.results), event.seconds)
                    losses = 0
                    self._progress.committed(len(outcome.new))
                elif isinstance(event, Failed):
                    in_flight.pop(event.lease.lease_id, None)
                    if event.kind == "finding":
                        units_held = tuple(unit.key for unit in event.lease.units)
                        self._found(Finding(stage, "worker", event.error, event.detail, event.worker, units_held))
                    if event.kind == "infrastructure":
                        losses += 1
                        if losses > INFRASTRUCTURE_BUDGET:
                            raise ClusterUnreachable(f"{losses} workers lost in a row without a result; the last: {event.error}")
                        queue.put_back(event.lease.units)
                    else:
                        self._strike(stage, event, strikes, queue)
            units_out = sum(len(lease.units) for lease in in_flight.values())
            self._progress.working(in_flight=units_out, workers=len(self._executor.workers()))
        self._next_lease = queue.next_id

    def _hand_out(self, queue: LeaseQueue, in_flight: dict[int, Lease]) -> None:
        while queue and self._executor.slots() and not self._interrupt.requested:
            lease = queue.take(workers=len(self._executor.workers()))
            in_flight[lease.lease_id] = lease
            self._executor.submit(lease)

    def _strike(self, stage: str, event: Failed, strikes: Counter[str], queue: LeaseQueue) -> None:
        """Every unit of the lease is suspect and goes on alone, so that only the one that does harm reaches the limit."""
        units = event.lease.units
        strikes.update(unit.key for unit in units)
        if len(units) == 1 and strikes[units[0].key] >= STRIKES:
            unit = units[0]
            failure = Failure(unit.key, unit.prompt_id, event.kind, event.error, event.detail, strikes[unit.key])
            self._store.failure_log(stage).append([asdict(failure)])
            self._events.write("set_aside", stage=stage, **asdict(failure))
            self._progress.set_aside(1)
        else:
            queue.put_alone(units)

    def _check(self, stage: str) -> None:
        violations = self._protocol.check(self._experiment, self._store)
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            self._found(Finding(stage, "check", f"after stage {stage}: {violations[0]}{more}", "\n".join(violations)))

    def _found(self, finding: Finding) -> NoReturn:
        """Keep a finding, so that no later command takes the run for a good one, and end the run with it."""
        path = keep_finding(self._store, finding)
        self._events.write("finding", path=path.name, **asdict(finding))
        raise ConformanceFinding(f"{finding.message}; kept as {path}")

    def _require_recorded(self, report: WorkerReport) -> None:
        experiment = self._experiment
        require_recorded(
            report,
            build_id=self._build_id,
            checkpoint_identity=experiment.checkpoint_identity,
            tokenizer_identity=experiment.tokenizer_identity,
        )

    def _log(self, event: Event) -> None:
        match event:
            case Done(lease, _, worker, seconds):
                units = [unit.key for unit in lease.units]
                self._events.write("done", lease=lease.lease_id, worker=worker, units=units, seconds=seconds)
            case Failed(lease, kind, error, detail, worker):
                units = [unit.key for unit in lease.units]
                what = {"kind": kind, "error": error, "detail": detail}
                self._events.write("failed", lease=lease.lease_id, worker=worker, units=units, **what)
            case Joined(report):
                self._events.write("joined", **asdict(report))
            case Left(worker, reason):
                self._events.write("left", worker=worker, reason=reason)

"""The loop of a run: stages in order; each is planned, worked off and checked. It alone decides what runs again.

What the driver knows is in the store; killing it at any moment loses at most the leases in flight, and the next
driver goes on from there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection

from actors.executor import Executor, WorkerReport
from actors.fleet import require_recorded
from runner.commit import GROUP_SECONDS, Committer
from runner.finding import Finding
from runner.interrupt import Interrupt
from runner.plan import plan_stage, write_plan
from runner.protocol import Experiment, ExperimentProtocol
from runner.retry_request import RetryRequest
from runner.stage_work import StageWork, kept
from runner.store import RunStore
from runner.telemetry import Telemetry
from schemas.errors import UnitsFailed

REQUEST_SECONDS = 1.0
"""Between two looks for a request to try units again."""


class Driver:
    """Drives the run of `store` to its end. Precondition: the caller holds the run's claim, and the store was recovered under it.

    build_id: the kernels that the run was started with; a worker with others gets no result committed. The executor is started
    when the first unit needs it and closed on the way out, whatever that is. clock: seconds, never going back.
    group_seconds: see runner.commit.
    """

    def __init__(
        self,
        store: RunStore,
        protocol: ExperimentProtocol,
        experiment: Experiment,
        executor: Executor,
        *,
        build_id: str,
        telemetry: Telemetry,
        interrupt: Interrupt,
        clock: Callable[[], float] = time.monotonic,
        group_seconds: float = GROUP_SECONDS,
    ) -> None:
        self._store = store
        self._committer = Committer(store, group_seconds=group_seconds, clock=clock)
        self._protocol = protocol
        self._experiment = experiment
        self._executor = executor
        self._build_id = build_id
        self._telemetry = telemetry
        self._interrupt = interrupt
        self._clock = clock
        self._stages = protocol.stages(experiment.job)
        self._request = RetryRequest(store)
        self._next_look = 0.0
        self._started = False
        self._behind = False  # units of a stage that was worked off are to be tried again
        self._next_lease = 0

    def run(self) -> None:
        """Run every stage. On return units that had to be set aside are written down, and everything else is committed.

        Raises ConformanceFinding (executed again a unit gave other bytes, a worker found a contradiction, or a check of the
        protocol fails), which is on disk by then; UnitsFailed before a stage that cannot be planned without units that were set
        aside; InvalidInput for a worker that has not what the run was started with; ClusterUnreachable, Interrupted.
        """
        self._telemetry.started()
        ended = False
        try:
            while not self._all_stages():
                pass
            ended = True
        finally:
            self._executor.close(kill=not ended)

    def _all_stages(self) -> bool:
        """Every stage in turn; False when units of one that was worked off are to be tried again: all have to be planned anew.

        A request is looked for before a stage is planned and never between planning and the end of it, but for its own units.
        """
        self._take_request("")
        self._behind = False
        for stage in self._stages:
            self._run_stage(stage)
            self._check(stage)
            self._take_request("")
            if self._behind:
                return False
        return True

    def _run_stage(self, stage: str) -> None:
        self._require_complete(stage)
        units = self._protocol.units(self._experiment, stage, self._store)
        planned = plan_stage(self._store, stage, units)
        write_plan(self._store, stage, planned)
        self._telemetry.planned(stage, Counter(unit.reason for unit in planned))
        todo = [one.unit for one in planned if one.reason in ("new", "stale")]
        del planned  # there may be many
        if not todo:
            return
        if not self._started:
            self._interrupt.require_none()
            self._executor.start(self._interrupt.require_none)
            self._started = True
        execution = self._experiment.job.execution
        work = StageWork(
            self._store,
            self._committer,
            stage,
            units,
            self._executor,
            telemetry=self._telemetry,
            interrupt=self._interrupt,
            admit=self._require_recorded,
            cleared=lambda: self._look(stage),
            deadline=execution.deadline_s,
            clock=self._clock,
        )
        self._next_lease = work.run(todo, largest=execution.batch, first_lease=self._next_lease)

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

    def _look(self, stage: str) -> Collection[str]:
        """Units of the stage in work that somebody asked for again since the last look."""
        if self._clock() < self._next_look:
            return ()
        self._next_look = self._clock() + REQUEST_SECONDS
        return self._take_request(stage)

    def _take_request(self, in_work: str) -> Collection[str]:
        """Take a request, if there is one; returns the units of the stage that is in work, which can be tried at once."""
        cleared = self._request.take(self._stages)
        for stage, units in cleared.items():
            self._telemetry.cleared(stage, units, now=stage == in_work)
            self._behind |= stage != in_work
        return frozenset(cleared.get(in_work, ()))

    def _check(self, stage: str) -> None:
        violations = self._protocol.check(self._experiment, self._store)
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            finding = Finding(stage, "check", f"after stage {stage}: {violations[0]}{more}", "\n".join(violations))
            raise kept(self._store, self._telemetry, finding)

    def _require_recorded(self, report: WorkerReport) -> None:
        experiment = self._experiment
        require_recorded(
            report,
            build_id=self._build_id,
            checkpoint_identity=experiment.checkpoint_identity,
            tokenizer_identity=experiment.tokenizer_identity,
        )

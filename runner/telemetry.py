"""What happens in a run, told once by the driver and handed on to the events log, the progress display and the metrics.

docs/formats.md, "Events log", has the events and their fields.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from actors.executor import Done, Failed, WorkerReport
from runner.events import EventsLog
from runner.failure import Failure
from runner.finding import Finding
from runner.in_flight import Held
from runner.metrics import Metrics
from runner.progress import Progress
from schemas.unit import Lease


class Telemetry:
    """Tells everybody. It remembers where workers are, and how often units that failed were tried."""

    def __init__(self, events: EventsLog, progress: Progress, metrics: Metrics) -> None:
        self._events = events
        self._progress = progress
        self._metrics = metrics
        self._hosts: dict[str, str] = {}
        self._failures: Counter[str] = Counter()

    def started(self) -> None:
        self._events.write("started", host=platform.node(), pid=os.getpid())

    def planned(self, stage: str, reasons: Mapping[str, int]) -> None:
        total = sum(reasons.values())
        self._events.write("planned", stage=stage, units=total, reasons=dict(reasons))
        self._progress.stage(stage, total=total, done=reasons.get("done", 0), failed=reasons.get("failed", 0))

    def leased(self, held: Held) -> None:
        lease = self._of(held.lease, held.worker)
        self._events.write("leased", **lease)
        again = sum(attempt > 1 for attempt in lease["attempts"])
        if again:
            self._metrics.tried_again(again, host=lease["host"])

    def done(self, event: Done, new: int) -> None:
        """new: units committed by it, which are all of them."""
        lease = self._of(event.lease, event.worker)
        self._events.write("done", **lease, new=new, seconds=event.seconds)
        self._progress.committed(new)
        if new:
            self._metrics.done(new, host=lease["host"], seconds=event.seconds / len(event.lease.units))

    def failed(self, event: Failed, seconds: float) -> None:
        """seconds: since it was handed over."""
        lease = self._of(event.lease, event.worker)
        self._events.write("failed", **lease, kind=event.kind, error=event.error, detail=event.detail, seconds=seconds)
        self._failures.update(unit.key for unit in event.lease.units)

    def late(self, event: Done | Failed) -> None:
        """An answer for a lease that was answered or given up before; nothing of it is counted."""
        lease = self._of(event.lease, event.worker)
        self._events.write("late", **lease, answer="done" if isinstance(event, Done) else event.kind)

    def set_aside(self, stage: str, failure: Failure, worker: str) -> None:
        host = self._hosts.get(worker, "")
        self._events.write("set_aside", stage=stage, worker=worker, host=host, **asdict(failure))
        self._progress.set_aside(1)
        self._metrics.set_aside(1, host=host)

    def cleared(self, stage: str, units: Sequence[str], *, now: bool) -> None:
        """Units that were set aside are to be tried again; now: in the stage that is worked off now."""
        self._events.write("cleared", stage=stage, units=list(units))
        if now:
            self._progress.cleared(len(units))

    def joined(self, report: WorkerReport) -> None:
        self._hosts[report.worker] = report.host
        self._events.write("joined", **asdict(report))

    def left(self, worker: str, reason: str) -> None:
        self._events.write("left", worker=worker, host=self._hosts.get(worker, ""), reason=reason)

    def finding(self, path: str, finding: Finding) -> None:
        self._events.write("finding", path=path, **asdict(finding))

    def working(self, *, in_flight: int, workers: int) -> None:
        self._progress.working(in_flight=in_flight, workers=workers)
        self._metrics.in_flight(in_flight)

    def _of(self, lease: Lease, worker: str) -> dict[str, Any]:
        keys = [unit.key for unit in lease.units]
        return {
            "stage": lease.units[0].stage,
            "lease": lease.lease_id,
            "worker": worker,
            "host": self._hosts.get(worker, ""),
            "units": keys,
            "attempts": [1 + self._failures[key] for key in keys],
        }

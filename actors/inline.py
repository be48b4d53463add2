"""One worker in the driver's own process, behind the executor interface: no cluster, no processes, the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.executor import Event, Execute, Joined, WorkerReport, WorkerSpec
from actors.worker import Worker
from schemas.unit import Lease


class InlineExecutor:
    """Runs a lease inside `wait`, which therefore returns only when the lease has ended. Deadlines cannot be enforced here."""

    def __init__(self, spec: WorkerSpec, execute: Execute) -> None:
        self._spec = spec
        self._execute = execute
        self._worker: Worker | None = None
        self._reports: list[WorkerReport] = []
        self._lease: Lease | None = None
        self._events: list[Event] = []

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        if self._worker is None:
            self._worker = Worker(self._spec, "inline")
            self._reports = [self._worker.report()]
            self._events.append(Joined(self._reports[0]))

    def slots(self) -> int:
        return int(self._worker is not None and self._lease is None)

    def workers(self) -> Sequence[WorkerReport]:
        return self._reports

    def submit(self, lease: Lease) -> str:
        if self._worker is None or self._lease is not None:
            raise RuntimeError("submit without an idle worker")
        self._lease = lease
        return self._worker.name

    def wait(self, timeout: float) -> list[Event]:
        events, self._events = self._events, []
        if self._worker is not None and self._lease is not None:
            lease, self._lease = self._lease, None
            events.append(self._worker.run(self._execute, lease).event(lease, self._worker.name))
        return events

    def close(self, *, kill: bool = False) -> None:
        self._worker = self._lease = None
        self._reports = []

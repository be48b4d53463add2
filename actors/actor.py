"""What runs inside a Ray actor process: a Worker, shielded from the terminal's Ctrl-C, with a memory limit."""

from __future__ import annotations

import signal

import ray

from actors.executor import Execute, WorkerReport, WorkerSpec
from actors.memory import fair_share, limit_memory
from actors.processors import bind
from actors.worker import Outcome, Worker
from schemas.errors import RunnerError
from schemas.unit import Lease


class WorkerActor:
    """The pool calls `ready` once, then `alive` and `run` for each lease. Expected errors are returned, not raised.

    memory_bytes: what it may claim for its work; None for its share among so many `neighbours`, itself included.
    """

    def __init__(self, spec: WorkerSpec, name: str, memory_bytes: int | None, neighbours: int) -> None:
        # Ctrl-C reaches the whole terminal; what is in flight ends when the driver says so.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._spec = spec
        self._name = name
        self._memory_bytes = memory_bytes
        self._neighbours = neighbours
        self._worker: Worker | None = None

    def ready(self, *, with_content: bool = False) -> tuple[WorkerReport, str] | RunnerError:
        """Open everything; the report and the ID of the Ray node, or why it cannot be opened."""
        bind(self._spec.threads)
        try:
            self._worker = Worker(self._spec, self._name)
        except RunnerError as error:
            return error
        memory = self._memory_bytes or fair_share(self._neighbours)
        if memory is not None:
            limit_memory(memory)
        return self._worker.report(with_content=with_content), ray.get_runtime_context().get_node_id()

    def alive(self) -> None:
        """Answers; a lease is handed over only after that, so that it is not blamed for a death before it."""

    def run(self, execute: Execute, lease: Lease) -> Outcome:
        if self._worker is None:
            raise RuntimeError("run before ready")
        return self._worker.run(execute, lease)

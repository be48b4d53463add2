"""A pool of Ray actors behind the executor interface.

Ray restarts and retries nothing (`max_restarts=0`, `max_task_retries=0`): it would hand a unit that kills its worker to the next
worker, and the next. A death is reported once, with the lease that was in the worker's hands; a fresh actor takes the slot.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import ray
import ray.exceptions

from actors.actor import WorkerActor
from actors.cluster import Cluster, available_cpus
from actors.executor import Event, Execute, Failed, FailureKind, Joined, Left, WorkerReport, WorkerSpec
from actors.fleet import admit
from actors.survey import PROCEED_SECONDS, room_for, survey
from actors.worker import Outcome, one_line
from schemas.errors import ClusterUnreachable, RunnerError
from schemas.unit import Lease

GROWTH_SECONDS = 5.0
"""Between two looks for hosts that joined."""

FETCH_SECONDS = 60.0
"""A result that is announced but does not arrive in this time counts as lost."""

CHECK_SECONDS = 60.0
"""A worker that does not answer for this long, before it gets its lease, counts as lost; links may be cut for a while."""

GATHER_SECONDS = 20.0
"""How long the start waits for the other workers once one is ready: they may be more than there is room for."""

AGAIN_SECONDS = 60.0
"""A slot that was given up is tried again so much later, while others work: hosts come back."""


@dataclass(frozen=True)
class PoolSettings:
    """How many workers, where, and how patient.

    address: None starts Ray in this process, else "auto" or HOST:PORT. actors: None for as many as the CPUs hold.
    deadline: seconds a lease may take. memory_bytes: private memory a worker may claim for its work, None for its share of the
    host's. start_timeout: seconds to wait while no worker at all is ready. start_failures: failed starts in a row after which a
    slot is given up, for `again` seconds if others work.
    """

    address: str | None = None
    actors: int | None = None
    deadline: float = 3600.0
    memory_bytes: int | None = None
    start_timeout: float = 120.0
    start_failures: int = 5
    again: float = AGAIN_SECONDS


class _State(Enum):
    STARTING = "starting"
    IDLE = "idle"
    CHECKING = "checking"  # has a lease, did not answer `alive` yet
    BUSY = "busy"
    GIVEN_UP = "given up"


@dataclass(eq=False)
class _Slot:
    """A place for one actor; `call` is what it is asked now, at most one thing. deadline: of that call, or of being given up."""

    index: int
    state: _State = _State.GIVEN_UP
    starts: int = 0
    name: str = ""
    actor: Any = None
    call: Any = None
    report: WorkerReport | None = None
    node: str = ""
    lease: Lease | None = None
    deadline: float = field(default=float("inf"))


class RayPool:
    """Implements `actors.executor.Executor` on an embedded or a running Ray cluster."""

    def __init__(self, spec: WorkerSpec, execute: Execute, settings: PoolSettings | None = None) -> None:
        self._spec = spec
        self._execute = execute
        self._settings = settings or PoolSettings()
        self._cluster: Cluster | None = None
        self._slots: list[_Slot] = []
        self._events: list[Event] = []
        self._started = self._closing = False
        self._failed_starts = 0
        self._last_start_error: RunnerError | str = ""
        self._nobody_since = 0.0
        self._neighbours = 1  # most workers on one host
        self._next_growth = 0.0
        self._surveyed: Sequence[WorkerReport] = ()

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        """Wait for all workers, at most `start_timeout`, and GATHER_SECONDS once one is ready; others join as they come."""
        settings, threads = self._settings, self._spec.threads
        if settings.address is None:
            cpus = available_cpus()
            count = settings.actors or max(1, cpus // threads)
            self._cluster = Cluster.embed(max(cpus, count * threads))
        else:
            self._cluster = Cluster.connect(settings.address)
            count = 0
        self._nobody_since = time.monotonic()
        try:
            proceed()
            if settings.address is not None:
                self._surveyed = survey(self._cluster, self._spec, _actor_environment(threads), proceed)
                count = max(1, self._room())
            self._count_neighbours(count)
            self._slots = [_Slot(index) for index in range(count)]
            for slot in self._slots:
                self._spawn(slot)
            end = time.monotonic() + settings.start_timeout
            while any(slot.state is _State.STARTING for slot in self._slots) and time.monotonic() < end:
                proceed()
                nobody = not self.workers()
                self._collect(min(PROCEED_SECONDS, end - time.monotonic()))
                if nobody and self.workers():
                    end = min(end, time.monotonic() + GATHER_SECONDS)
                if isinstance(self._last_start_error, RunnerError):
                    raise self._last_start_error  # the same on every attempt
                self._require_somebody()
            self._require_somebody()
            admit(self.workers())
        except BaseException:
            self.close(kill=True)
            raise
        self._started = True

    def _room(self) -> int:
        """Workers that fit the cluster now, with CPUs for all their threads, and no more than are asked for."""
        room = room_for(self._cluster.hosts(), self._spec.threads) if self._cluster is not None else 0
        return room if self._settings.actors is None else min(room, self._settings.actors)

    def _grow(self) -> None:
        """Use hosts that joined a cluster after the start."""
        if self._settings.address is None or self._closing or time.monotonic() < self._next_growth:
            return
        self._next_growth = time.monotonic() + GROWTH_SECONDS
        while len(self._slots) < self._room():
            self._slots.append(_Slot(len(self._slots)))
            self._count_neighbours(len(self._slots))
            self._spawn(self._slots[-1])

    def _count_neighbours(self, workers: int) -> None:
        hosts = [] if self._cluster is None else self._cluster.hosts()
        self._neighbours = max([1, *(min(workers, host.cpus // self._spec.threads) for host in hosts)])

    def slots(self) -> int:
        return sum(slot.state is _State.IDLE for slot in self._slots)

    def workers(self) -> Sequence[WorkerReport]:
        return [slot.report for slot in self._slots if slot.report is not None]

    def submit(self, lease: Lease) -> str:
        slot = next((slot for slot in self._slots if slot.state is _State.IDLE), None)
        if slot is None:
            raise RuntimeError("submit without an idle worker")
        slot.lease, slot.state, slot.deadline = lease, _State.CHECKING, time.monotonic() + CHECK_SECONDS
        slot.call = slot.actor.alive.remote()
        return slot.name

    def wait(self, timeout: float) -> list[Event]:
        """Also raises ClusterUnreachable, once all events are delivered, when no worker is left and none can be started."""
        end = time.monotonic() + timeout
        while True:
            if not self._events:
                self._collect(end - time.monotonic())
                self._enforce_deadlines()
            if self._events:
                events, self._events = self._events, []
                return events
            self._require_somebody()
            if time.monotonic() >= end:
                return []

    def close(self, *, kill: bool = False) -> None:
        if self._cluster is None:
            return
        self._closing = True
        while not kill and any(slot.state in (_State.CHECKING, _State.BUSY) for slot in self._slots):
            self._collect(1.0)
            self._enforce_deadlines()
        for slot in self._slots:
            if slot.state is not _State.GIVEN_UP:
                ray.kill(slot.actor, no_restart=True)
        self._slots = []
        self._cluster.close()
        self._cluster = None

    def _spawn(self, slot: _Slot) -> None:
        slot.name = f"w{slot.index}.{slot.starts}" if slot.starts else f"w{slot.index}"
        slot.starts += 1
        slot.state, slot.report, slot.lease, slot.deadline = _State.STARTING, None, None, float("inf")
        slot.actor = (
            ray.remote(WorkerActor)
            .options(
                num_cpus=self._spec.threads,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=1,
                scheduling_strategy="SPREAD",
                runtime_env={"env_vars": _actor_environment(self._spec.threads)},  # for these only: the package is installed
            )
            .remote(self._spec, slot.name, self._settings.memory_bytes, self._neighbours)
        )
        # A host that joined after the survey: what the survey would have asked it.
        slot.call = slot.actor.ready.remote(with_content=bool(self._surveyed) and self._started)

    def _collect(self, timeout: float) -> None:
        """Take in every answer that is there, waiting for the first until `timeout`, a deadline or the end of patience."""
        if self._cluster is not None:
            self._cluster.require()
            self._grow()
        now = time.monotonic()
        for slot in self._slots:
            if slot.state is _State.GIVEN_UP and now >= slot.deadline and self.workers() and not self._closing:
                self._spawn(slot)
        calls = {slot.call: slot for slot in self._slots if slot.call is not None}
        ends = [now + timeout, *(slot.deadline for slot in calls.values())]
        if not self.workers():
            ends.append(self._nobody_since + self._settings.start_timeout)
        pause = max(0.0, min(ends) - now)
        if not calls:
            time.sleep(pause)
            return
        try:
            ready, waiting = ray.wait(list(calls), num_returns=1, timeout=pause)
            if ready and waiting:
                ready += ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]
        except ray.exceptions.RayError as error:
            raise ClusterUnreachable(f"lost the Ray cluster: {one_line(error)}") from error
        for slot in sorted((calls[call] for call in ready), key=lambda slot: slot.index):
            call, slot.call = slot.call, None
            try:
                answer = ray.get(call, timeout=FETCH_SECONDS)
            except ray.exceptions.RayError as error:
                self._no_answer(slot, error)
            else:
                self._answer(slot, answer)

    def _answer(self, slot: _Slot, answer: Any) -> None:
        if slot.state is _State.STARTING:
            if isinstance(answer, RunnerError):
                self._start_failed(slot, answer)
            else:
                self._opened(slot, *answer)
        elif slot.state is _State.CHECKING:
            slot.state, slot.deadline = _State.BUSY, time.monotonic() + self._settings.deadline
            slot.call = slot.actor.run.remote(self._execute, slot.lease)
        elif isinstance(answer, Outcome) and slot.lease is not None:
            self._events.append(answer.event(slot.lease, slot.name))
            if answer.results is None and answer.kind == "memory":
                self._replace(slot, "ran out of memory")  # what it still holds would be missed by the next unit
            else:
                self._free(slot)

    def _no_answer(self, slot: _Slot, error: ray.exceptions.RayError) -> None:
        if slot.state is _State.STARTING:
            self._start_failed(slot, one_line(error) if isinstance(error, ray.exceptions.RayTaskError) else _last_line(error))
            return
        kind, reason = self._judge(slot, error)
        if slot.lease is not None:
            self._events.append(Failed(slot.lease, kind, f"{slot.name}: {reason}", str(error), slot.name))
        if isinstance(error, ray.exceptions.RayTaskError) and kind != "memory":
            self._free(slot)  # the actor lives: it could not load the work or send the result
        else:
            self._replace(slot, reason)

    def _judge(self, slot: _Slot, error: ray.exceptions.RayError) -> tuple[FailureKind, str]:
        """Whose fault it is that a call with a lease gave no answer."""
        if isinstance(error, ray.exceptions.RayTaskError):
            return ("memory" if isinstance(error, MemoryError) else "error"), one_line(error)
        if isinstance(error, ray.exceptions.OutOfMemoryError):
            return "infrastructure", "Ray's memory monitor killed the worker"
        if not isinstance(error, ray.exceptions.ActorDiedError):
            return "infrastructure", one_line(error)
        if "node has died" in str(error) or (self._cluster is not None and slot.node not in self._cluster.alive_nodes()):
            return "infrastructure", "the worker's node is gone"
        if slot.state is _State.CHECKING:
            return "infrastructure", "the worker died before it got the lease"
        return "crash", "the worker died with the lease in hand"

    def _opened(self, slot: _Slot, report: WorkerReport, node: str) -> None:
        if self._started:
            try:
                admit([*self._surveyed, *self.workers(), report])
            except RunnerError as error:
                self._start_failed(slot, error)
                return
        self._failed_starts = 0
        slot.report, slot.node, slot.state = report, node, _State.IDLE
        self._events.append(Joined(report))

    def _start_failed(self, slot: _Slot, error: RunnerError | str) -> None:
        self._failed_starts += 1
        self._last_start_error = error
        self._events.append(Left(slot.name, f"did not start: {error}"))
        ray.kill(slot.actor, no_restart=True)
        if self._closing or self._failed_starts >= self._settings.start_failures:
            slot.state, slot.deadline = _State.GIVEN_UP, time.monotonic() + self._settings.again
        else:
            self._spawn(slot)

    def _replace(self, slot: _Slot, reason: str) -> None:
        self._events.append(Left(slot.name, reason))
        ray.kill(slot.actor, no_restart=True)
        slot.report, slot.lease, slot.call, slot.deadline = None, None, None, float("inf")
        if not self.workers():
            self._nobody_since = time.monotonic()
        if self._closing:
            slot.state = _State.GIVEN_UP
        else:
            self._spawn(slot)

    def _free(self, slot: _Slot) -> None:
        slot.state, slot.lease, slot.deadline = _State.IDLE, None, float("inf")

    def _enforce_deadlines(self) -> None:
        for slot in self._slots:
            if slot.lease is not None and time.monotonic() >= slot.deadline:
                kind: FailureKind = "deadline"
                reason = f"ran longer than {self._settings.deadline:g} s"
                if slot.state is _State.CHECKING:
                    kind, reason = "infrastructure", f"did not answer for {CHECK_SECONDS:g} s, before it got the lease"
                self._events.append(Failed(slot.lease, kind, f"{slot.name}: {reason}", "", slot.name))
                self._replace(slot, reason)

    def _require_somebody(self) -> None:
        """Raise when no worker is left and none will come."""
        if self.workers() or self._closing:
            return
        if all(slot.state is _State.GIVEN_UP for slot in self._slots):
            if isinstance(self._last_start_error, RunnerError):
                raise self._last_start_error
            raise ClusterUnreachable(f"{self._failed_starts} workers in a row did not start; the last: {self._last_start_error}")
        if self._cluster is not None and time.monotonic() >= self._nobody_since + self._settings.start_timeout:
            raise ClusterUnreachable(
                f"no worker became ready in {self._settings.start_timeout:g} s: the cluster has {self._cluster.cpus()} CPUs on "
                f"{len(self._cluster.alive_nodes())} nodes, a worker needs {self._spec.threads}"
            )


def _actor_environment(threads: int) -> dict[str, str]:
    """Environment of an actor process: library threads bounded, and our packages importable from a source checkout."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = dict.fromkeys(names, str(threads)) | {
        "TOKENIZERS_PARALLELISM": "false",
        # Arrow's other allocators reserve a gigabyte at the first allocation, which a memory limit refuses.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    root = Path(__file__).resolve().parents[1]
    if not root.name.endswith("-packages"):
        paths = [str(root), *sys.path, os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    return environment


def _last_line(error: BaseException) -> str:
    """Ray's account of a death begins with generalities and ends with the cause."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

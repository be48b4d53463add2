"""What the driver needs of whoever does the work: lease in, events out.

Two implementations share this interface: `actors.inline.InlineExecutor` in the driver's own process, which most tests use, and
`actors.pool.RayPool`. The driver owns every retry; an executor only says what happened to a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import kernels
from schemas.unit import Lease, Unit, UnitResult


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker opens: the same on every host. checkpoint: a directory, or "builtin" (resolved on the worker's own host)."""

    checkpoint: str
    numerics: Literal["official", "fp32"]
    threads: int


@dataclass(frozen=True)
class WorkerReport:
    """What a worker says of itself before it gets work. Equal build and checkpoint identity are required of a fleet.

    environment: the rest of study A.2, by name: operating system, CPU, cores it may use, memory. checkpoint_content: digest of
    the checkpoint's files, where it was asked for and is affordable (actors.content).
    """

    worker: str
    host: str
    pid: int
    build_id: str
    cpu_features: dict[str, bool]
    instruction_set: str
    checkpoint_identity: str
    tokenizer_identity: str
    versions: dict[str, str]
    threads: int
    environment: dict[str, str] = field(default_factory=dict)
    checkpoint_content: str | None = None


@dataclass(frozen=True)
class Session:
    """What executing code gets: an opened checkpoint, a decoder on it, and the tokenizer. Lives in the worker."""

    checkpoint: kernels.Checkpoint
    decoder: kernels.Decoder
    tokenizer: Tokenizer


class Tokenizer(Protocol):
    """Raw text to token IDs and back; no template, no added tokens (study 2.1)."""

    vocab_size: int

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


Execute = Callable[[Session, Sequence[Unit]], list[UnitResult]]
"""A protocol's work on a batch of units: an importable function, which travels by name. Results in the order of the units."""


@dataclass(frozen=True)
class Done:
    """The lease was executed; results in the order of its units. seconds: compute time in the worker."""

    lease: Lease
    results: Sequence[UnitResult]
    worker: str
    seconds: float


FailureKind = Literal["error", "crash", "deadline", "memory", "finding", "infrastructure"]


@dataclass(frozen=True)
class Failed:
    """The lease did not give results. `error` is one line, `detail` the whole traceback or "".

    kind: "error" the code raised (deterministic until shown otherwise), "crash" the worker died with this lease in hand,
    "deadline" it overran, "memory" it raised MemoryError, "finding" it raised ConformanceFinding (the run stops: a retry would
    hide it), "infrastructure" host, network or Ray's memory monitor, which kills innocent workers too: no fault of the lease.
    """

    lease: Lease
    kind: FailureKind
    error: str
    detail: str
    worker: str


@dataclass(frozen=True)
class Joined:
    """A worker is ready and was admitted to the fleet."""

    report: WorkerReport


@dataclass(frozen=True)
class Left:
    """A worker is gone (dead, killed after a deadline, host lost); the executor is replacing it."""

    worker: str
    reason: str


Event = Done | Failed | Joined | Left


class Executor(Protocol):
    """Lease in, events out; at most one lease in a worker's hands."""

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        """Bring workers up. Raises ClusterUnreachable, InvalidInput (checkpoint), ConformanceFinding (a fleet that disagrees).

        proceed: called again and again while this waits; what it raises ends the start.
        """

    def slots(self) -> int:
        """Workers that are ready and idle now."""

    def workers(self) -> Sequence[WorkerReport]:
        """Reports of the workers that are alive."""

    def submit(self, lease: Lease) -> str:
        """Hand a lease to an idle worker; returns its name. Precondition: slots() > 0."""

    def wait(self, timeout: float) -> list[Event]:
        """Events since the last call, waiting up to `timeout` seconds for the first."""

    def close(self, *, kill: bool = False) -> None:
        """Give everything back; with `kill`, without waiting for what is in flight. Idempotent."""

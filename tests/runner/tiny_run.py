"""A run small enough to be killed hundreds of times: two stages, no decoder, an executor that a test directs."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from faulty_disk import HastyDisk

from actors.executor import Done, Event, Execute, Executor, Failed, FailureKind, Joined, Left, WorkerReport
from runner import parquet
from runner.disk import Disk
from runner.driver import Driver
from runner.events import EventsLog
from runner.interrupt import Interrupt
from runner.local_storage import LocalStorage
from runner.metrics import Metrics, NoMetrics
from runner.paths import RunPaths
from runner.progress import Progress, Silent
from runner.protocol import Committed, Experiment
from runner.storage import Storage
from runner.store import RunStore
from runner.telemetry import Telemetry
from runner.verdict import finish
from schemas.catalog import Prompt
from schemas.job import BreadthJob, Execution
from schemas.unit import Lease, Unit, UnitResult

ROW = [pa.field("prompt_id", pa.string(), nullable=False), pa.field("horizon", pa.int32(), nullable=False)]
STAGES = ("4", "8")
METADATA = {"schema_version": "1", "key": "prompt_id,horizon"}
TOKENS = pa.schema([*ROW, pa.field("tokens", pa.list_(pa.field("element", pa.int32())), nullable=False)], metadata=METADATA)
SUMS = pa.schema([*ROW, pa.field("total", pa.int64(), nullable=False)], metadata=METADATA)


def tokens_of(prompt: str, count: int) -> list[int]:
    return [hashlib.sha256(f"{prompt}/{place}".encode()).digest()[0] for place in range(count)]


def execute(session: object, units: Sequence[Unit]) -> list[UnitResult]:
    results = []
    for unit in units:
        tokens = tokens_of(unit.payload["text"], unit.meaning["horizon"])
        row = {"prompt_id": unit.prompt_id, "horizon": unit.meaning["horizon"]}
        tables = {
            "tokens": pa.Table.from_pylist([row | {"tokens": tokens}], schema=TOKENS),
            "sums": pa.Table.from_pylist([row | {"total": sum(tokens)}], schema=SUMS),
        }
        results.append(UnitResult(unit.key, tables))
    return results


class TinyProtocol:
    """Stage "4" has every prompt; stage "8" those whose stage-4 total is even, so that its plan depends on committed results."""

    name = "tiny"
    needs_complete: Mapping[str, Sequence[str]] = {}
    execute: Execute = staticmethod(execute)  # type: ignore[assignment]

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters

    def schemas(self) -> Mapping[str, pa.Schema]:
        return {"tokens": TOKENS, "sums": SUMS}

    def stages(self, job: object) -> Sequence[str]:
        return STAGES

    def units(self, experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
        prompts = experiment.prompts
        if stage == "8":
            rows = committed.table("4", "sums").to_pylist()
            even = {row["prompt_id"] for row in rows if row["total"] % 2 == 0}
            prompts = [prompt for prompt in prompts if prompt.prompt_id in even]
        return [
            Unit(
                stage,
                prompt.prompt_id,
                {"prompt": prompt.sha256, "horizon": int(stage), "parameters": self.parameters},
                {"text": prompt.text},
                group=prompt.language,
            )
            for prompt in prompts
        ]

    def check(self, experiment: Experiment, committed: Committed) -> list[str]:
        earlier = {row["prompt_id"]: row["tokens"] for row in committed.table("4", "tokens").to_pylist()}
        later = {row["prompt_id"]: row["tokens"] for row in committed.table("8", "tokens").to_pylist()}
        return [f"prompt {prompt}: other first tokens" for prompt, tokens in later.items() if tokens[:4] != earlier.get(prompt)]


def experiment(prompts: int = 6, batch: int = 4) -> Experiment:
    job = BreadthJob(schema_version=1, name="tiny", protocol="breadth", catalog="catalog.tsv", execution=Execution(batch=batch))
    texts = [Prompt(f"p{number}", ("en", "zh")[number % 2], "ordinary", f"text {number}") for number in range(prompts)]
    return Experiment(job, texts, checkpoint_identity="c" * 64, tokenizer_identity="d" * 64)


def worker_report(name: str) -> WorkerReport:
    return WorkerReport(name, "here", 1, "build", {}, "scalar", "c" * 64, "d" * 64, {}, 1)


@dataclass
class DirectedExecutor:
    """Executes leases in `wait`, in an order drawn from `seed`, as if by several workers.

    trouble: asked for each lease; a failure kind means that the lease fails with it. Each result is given `copies` times. Before
    the first result the workers of `joining` report themselves.
    """

    workers_alive: int = 2
    seed: int = 0
    trouble: Callable[[Lease], FailureKind | None] = lambda lease: None
    copies: int = 1
    joining: Sequence[WorkerReport] = ()
    work: Callable[[object, Sequence[Unit]], list[UnitResult]] = execute
    leases: list[Lease] = field(default_factory=list)
    closed: list[bool] = field(default_factory=list)
    started: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._in_flight: list[Lease] = []
        self._joining = list(self.joining)

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        self.started = True

    def slots(self) -> int:
        return self.workers_alive - len(self._in_flight)

    def workers(self) -> Sequence[WorkerReport]:
        return [worker_report(f"w{number}") for number in range(self.workers_alive)]

    def submit(self, lease: Lease) -> str:
        assert self.slots() > 0
        self.leases.append(lease)
        self._in_flight.append(lease)
        return "w0"

    def wait(self, timeout: float) -> list[Event]:
        if self._joining:
            return [Joined(self._joining.pop(0))]
        if not self._in_flight:
            return []
        lease = self._in_flight.pop(self._random.randrange(len(self._in_flight)))
        kind = self.trouble(lease)
        if kind is not None:
            return [Failed(lease, kind, f"{kind} in lease", "the whole story", "w0"), Left("w0", kind)]
        return [Done(lease, self.work(None, lease.units), "w0", 0.1 * len(lease.units))] * self.copies

    def close(self, *, kill: bool = False) -> None:
        self.closed.append(kill)


def open_store(root: PurePath, disk: Disk | None = None, storage: Storage | None = None) -> RunStore:
    """The store of a run, new or old, as a driver that holds the claim opens it."""
    store = RunStore(RunPaths(root), TinyProtocol().schemas(), storage or LocalStorage(disk or HastyDisk()))
    store.recover()
    return store


def open_reader(store: RunStore) -> RunStore:
    """The same run, read anew."""
    return RunStore(store.paths, store.schemas, store.storage)


def drive(
    root: PurePath,
    executor: Executor | None = None,
    *,
    disk: Disk | None = None,
    storage: Storage | None = None,
    protocol: TinyProtocol | None = None,
    about: Experiment | None = None,
    interrupt: Interrupt | None = None,
    progress: Progress | None = None,
    metrics: Metrics | None = None,
    clock: Callable[[], float] = time.monotonic,
    group_seconds: float = 0.0,
) -> RunStore:
    """Carry a run out but for its end, `finish`. Every lease is a commit of its own unless the test says otherwise."""
    store = open_store(root, disk, storage)
    if store.finished() is not None:
        return store
    with EventsLog(store.storage, store.paths.events) as events:
        driver = Driver(
            store,
            protocol or TinyProtocol(),
            about or experiment(),
            executor or DirectedExecutor(),
            build_id="build",
            telemetry=Telemetry(events, progress or Silent(), metrics or NoMetrics()),
            interrupt=interrupt or Interrupt(lambda: None),
            clock=clock,
            group_seconds=group_seconds,
        )
        driver.run()
    return store


def complete(root: PurePath, executor: Executor | None = None, **how: Any) -> RunStore:
    """Carry a run out to its very end."""
    store = drive(root, executor, **how)
    if store.finished() is None:
        finish(store, STAGES)
    return store


def rows(root: PurePath, storage: Storage | None = None) -> dict[str, bytes]:
    """Stage and table -> the committed rows, as canonical bytes."""
    store = RunStore(RunPaths(root), TinyProtocol().schemas(), storage)
    return {f"{stage}/{table}": parquet.to_bytes(store.table(stage, table)) for stage in STAGES for table in store.schemas}


def dataset(store: RunStore) -> dict[str, bytes]:
    """Path in the run -> bytes, for every data file and nothing else."""
    depth = len(store.paths.root.parts)
    return {"/".join(path.parts[depth:]): store.storage.read(path) for path in store.data_files()}

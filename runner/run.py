"""A run as a whole: opened to be read, or carried out to its end. Everything it depends on is in its directory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from actors.content import content_of
from actors.executor import Executor, WorkerSpec
from actors.inline import InlineExecutor
from runner.claim import Claim
from runner.driver import Driver
from runner.events import EventsLog
from runner.interrupt import Interrupt
from runner.metrics import Metrics, NoMetrics, RayMetrics
from runner.paths import RunPaths
from runner.plan import changed_fields
from runner.preflight import Prepared, open_checkpoint
from runner.progress import Progress
from runner.protocol import Experiment, ExperimentProtocol
from runner.protocols import PROTOCOLS
from runner.run_directory import run_directory
from runner.run_record import RunRecord
from runner.storage import Storage, storage_at
from runner.store import RunStore
from runner.telemetry import Telemetry
from runner.verdict import Verdict, finish, require_marked, require_no_finding, verdict, write_dataset
from schemas.catalog import Catalog, parse_catalog
from schemas.errors import InvalidInput, UnitsFailed
from schemas.job_file import JobFile

INLINE = "inline"
"""Address of the executor in the driver's own process, without a cluster."""


@dataclass(frozen=True)
class Run:
    """A run opened to be read; nothing here writes, and no checkpoint is needed."""

    store: RunStore
    record: RunRecord
    catalog: Catalog
    job_file: JobFile
    protocol: ExperimentProtocol
    experiment: Experiment

    @property
    def paths(self) -> RunPaths:
        return self.store.paths

    def stages(self) -> list[str]:
        return list(self.protocol.stages(self.experiment.job))

    def verdict(self) -> Verdict:
        return verdict(self.store, self.stages(), self.protocol.needs_complete)


def open_run(root: PurePath) -> Run:
    """The run at `root`. Raises InvalidInput when there is none, or when its record and its copy of the catalog do not go
    together.
    """
    paths = run_directory(root)
    storage = storage_at(root)
    record = RunRecord.read(storage, paths.record)
    job = record.parsed_job(paths.record)
    try:
        catalog = parse_catalog(storage.read(paths.catalog), str(paths.catalog))
    except FileNotFoundError:
        raise InvalidInput(str(paths.catalog), "", "no such file", "the run's copy of its catalog") from None
    if catalog.digest != record.catalog_digest:
        raise InvalidInput(str(paths.catalog), "", f"digest {catalog.digest}", f"{record.catalog_digest}, as run.json says")
    for changed in changed_fields(record.prompts, catalog.bindings):
        raise InvalidInput(str(paths.record), f"prompts.{changed}", "another prompt", f"the prompts of {paths.catalog.name}")
    protocol = PROTOCOLS[job.protocol]
    experiment = Experiment(job, catalog.prompts, record.checkpoint_identity, record.tokenizer_identity)
    store = RunStore(paths, protocol.schemas(), storage)
    return Run(store, record, catalog, JobFile(paths.record, job), protocol, experiment)


def carry_out(
    prepared: Prepared,
    root: PurePath,
    executor: Executor,
    *,
    progress: Progress,
    interrupt: Interrupt,
    notice: Callable[[str], None] = lambda text: None,
) -> Run:
    """Start the run at `root`, or go on with it, to its end. A finished one is returned as it is.

    Raises InvalidInput when `root` holds another run or no run at all, RunBusy when another driver has it or takes it over,
    UnitsFailed when units had to be set aside, ConformanceFinding, ClusterUnreachable, Interrupted. notice: see Claim.
    """
    paths = run_directory(root)
    storage = storage_at(root)
    if not storage.exists(paths.finished):
        _require_own_directory(storage, paths)
        with Claim(storage, paths, notice=notice) as claim:
            run = _begin(prepared, storage, paths)
            if run.store.finished() is None:
                run.store.recover(claim)
                with EventsLog(storage, paths.events) as events:
                    driver = Driver(
                        run.store,
                        prepared.protocol,
                        prepared.experiment,
                        executor,
                        build_id=run.record.versions["kernels"],
                        telemetry=Telemetry(events, progress, _metrics(executor, paths, prepared)),
                        interrupt=interrupt,
                    )
                    _run_driver(driver, run)
                finish(run.store, run.stages())
    run = open_run(paths.root)
    if run.store.orphans():  # its driver was killed after its last word, or another one, given up before, wrote late
        with Claim(storage, paths, notice=notice) as claim:
            run.store.recover(claim)
    require_same_run(prepared, run)
    return run


def _run_driver(driver: Driver, run: Run) -> None:
    """Work off what can be. Where units that are set aside bar the rest, what is there can be read all the same."""
    try:
        driver.run()
    except UnitsFailed:
        write_dataset(run.store, run.stages())
        raise


def make_executor(prepared: Prepared, address: str | None) -> Executor:
    """What executes the job's units: "inline" in this process, None on Ray started here, else on the cluster at the address."""
    job = prepared.experiment.job
    spec = WorkerSpec(prepared.job_file.checkpoint, job.numerics, job.execution.threads)
    if address == INLINE:
        return InlineExecutor(spec, prepared.protocol.execute)
    # Here, because Ray takes a second to import, which no other command should wait for.
    from actors.pool import PoolSettings, RayPool

    memory = job.execution.memory_mib
    settings = PoolSettings(
        address=address,
        actors=job.execution.actors,
        deadline=job.execution.deadline_s,
        memory_bytes=None if memory is None else memory << 20,
    )
    return RayPool(spec, prepared.protocol.execute, settings)


def _metrics(executor: Executor, paths: RunPaths, prepared: Prepared) -> Metrics:
    """Ray's, where Ray is in use."""
    if isinstance(executor, InlineExecutor):
        return NoMetrics()
    return RayMetrics(run=paths.root.name or Path(paths.root).resolve().name, protocol=prepared.protocol.name)


def require_same_run(prepared: Prepared, run: Run) -> None:
    """Raises InvalidInput unless the run is the one that is asked for, ConformanceFinding when it can't be trusted any more."""
    work_left = run.store.finished() is None
    run.record.require_same(
        _record(prepared, with_content=work_left and run.record.checkpoint_content is not None),
        prepared.catalog,
        job_file=str(prepared.job_file.path),
        run_record=str(run.paths.record),
        work_left=work_left,
    )
    require_no_finding(run.store)
    require_marked(run.store, run.stages())


def _record(prepared: Prepared, *, with_content: bool) -> RunRecord:
    """The record of the run that is asked for; with the digest of the weights only if it is needed, as they are read for it."""
    checkpoint = prepared.job_file.checkpoint
    return RunRecord.of(
        prepared.experiment,
        prepared.catalog,
        prepared.protocol.schemas(),
        checkpoint=checkpoint,
        checkpoint_content=content_of(open_checkpoint(checkpoint)) if with_content else None,
    )


def _begin(prepared: Prepared, storage: Storage, paths: RunPaths) -> Run:
    """The run, written down if it is new, required to be the one that is asked for if it is not.

    Nothing is replaced: this driver may have been given up since it looked, and another one may have begun with the run.
    """
    if not storage.exists(paths.record):
        record = _record(prepared, with_content=True).to_bytes()
        # The catalog first: run.json is what makes a directory a run.
        with contextlib.suppress(FileExistsError):
            storage.create(paths.catalog, Path(prepared.job_file.catalog).read_bytes(), read_only=False)
        if not storage.exists(paths.record):
            _require_own_catalog(prepared, storage, paths)
        with contextlib.suppress(FileExistsError):
            storage.create(paths.record, record, read_only=False)
    run = open_run(paths.root)
    require_same_run(prepared, run)
    return run


def _require_own_catalog(prepared: Prepared, storage: Storage, paths: RunPaths) -> None:
    """Refuse the catalog of another job, whose driver was killed before it could write run.json."""
    left = parse_catalog(storage.read(paths.catalog), str(paths.catalog))
    if left.digest != prepared.catalog.digest:
        allowed = "this job's prompts (a driver that was killed as it began left it: remove it, or take another --run-dir)"
        raise InvalidInput(str(paths.catalog), "", "other prompts, and no run.json", allowed)


def _require_own_directory(storage: Storage, paths: RunPaths) -> None:
    """Refuse a place that holds something else than a run: nothing of somebody else's is mixed with or swept."""
    if storage.exists(paths.record):
        return
    for path in storage.entries(paths.root):
        if path not in (paths.claims, paths.catalog):
            found = f"{path.name} and no run.json"
            raise InvalidInput(str(paths.root), "", found, "a run, an empty directory or a new one")

"""`python -m benchmarks.storage`: what a run of many small units costs its driver, from 1,000 to 100,000 of them.

Each size is a run of its own process: the real driver and store, an inline executor, and units that take no time. Figures are
the time of each part, what the driver takes a unit beside executing it, and the peak of resident memory. `--seconds-per-unit`
says which share of a run that is whose units take so long. Nothing here is asserted; the machine's load shows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import pyarrow as pa

import kernels
from actors.executor import Session, WorkerSpec
from actors.inline import InlineExecutor
from runner.claim import Claim
from runner.driver import Driver
from runner.events import EventsLog
from runner.interrupt import Interrupt
from runner.location import location
from runner.metrics import NoMetrics
from runner.paths import RunPaths
from runner.progress import Silent
from runner.protocol import Committed, Experiment
from runner.storage import storage_at
from runner.store import RunStore
from runner.telemetry import Telemetry
from runner.verdict import finish, verdict
from runner.verify import verify
from schemas.catalog import Prompt
from schemas.job import BreadthJob, Execution
from schemas.unit import Unit, UnitResult

STAGE = "small"
SCHEMA = pa.schema(
    [
        pa.field("unit_key", pa.string(), nullable=False),
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("margin", pa.float32(), nullable=False),
        pa.field("token_ids", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ],
    metadata={"table": "small_units", "schema_version": "1", "key": "unit_key"},
)


class Executed:
    """Seconds inside `execute` so far, which are the workers' and not the driver's; peak memory when it was called first."""

    seconds = 0.0
    planned_mib = 0.0
    sleep = 0.0


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """One row a unit, as a protocol would return it."""
    began = time.perf_counter()
    Executed.planned_mib = Executed.planned_mib or peak_mib()
    time.sleep(Executed.sleep * len(units))
    results = []
    for unit in units:
        row = {
            "unit_key": unit.key,
            "prompt_id": unit.prompt_id,
            "margin": 0.25,
            "token_ids": list(range(16)),
            "text": unit.payload["text"],
        }
        results.append(UnitResult(unit.key, {"small_units": pa.Table.from_pylist([row], schema=SCHEMA)}))
    Executed.seconds += time.perf_counter() - began
    return results


class SmallUnits:
    """A protocol of one stage with a unit a prompt."""

    name = "small"
    needs_complete: Mapping[str, Sequence[str]] = MappingProxyType({})
    execute = staticmethod(execute)

    def schemas(self) -> dict[str, pa.Schema]:
        return {"small_units": SCHEMA}

    def stages(self, job: object) -> Sequence[str]:
        return (STAGE,)

    def units(self, experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
        shared = {"fork": {"layer": 5, "position": "first"}, "scheme": "B", "horizon": 16}
        return [
            Unit(
                stage,
                prompt.prompt_id,
                {
                    "protocol": self.name,
                    "parameters": shared,
                    "prompt_id": prompt.prompt_id,
                    "prompt_sha256": prompt.sha256,
                    "checkpoint": experiment.checkpoint_identity,
                    "tokenizer": experiment.tokenizer_identity,
                    "numerics": "official",
                    "schema_version": 1,
                },
                {"text": prompt.text},
            )
            for prompt in experiment.prompts
        ]

    def check(self, experiment: Experiment, committed: Committed) -> list[str]:
        return []


class Bench:
    """One run at `root`, measured part by part."""

    def __init__(self, root: PurePath, units: int) -> None:
        checkpoint = kernels.Checkpoint.open(kernels.builtin_checkpoint())
        job = BreadthJob(schema_version=1, name="small", protocol="breadth", catalog="c", execution=Execution(batch=64))
        prompts = [Prompt(f"p{number}", "en", "ordinary", f"text number {number}") for number in range(units)]
        executor = InlineExecutor(WorkerSpec("builtin", "official", 1), execute)
        executor.start()
        self.executor = executor
        self.identity = executor.workers()[0]
        self.experiment = Experiment(job, prompts, checkpoint.identity, self.identity.tokenizer_identity)
        self.paths = RunPaths(root)
        self.seconds: dict[str, float] = {}

    def store(self) -> RunStore:
        return RunStore(self.paths, SmallUnits().schemas(), storage_at(self.paths.root))

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        value = work()
        self.seconds[name] = time.perf_counter() - began
        return value

    def drive(self, store: RunStore) -> None:
        with Claim(store.storage, self.paths) as claim:
            store.recover(claim)
            with EventsLog(store.storage, self.paths.events) as events:
                Driver(
                    store,
                    SmallUnits(),  # type: ignore[arg-type]
                    self.experiment,
                    self.executor,
                    build_id=self.identity.build_id,
                    telemetry=Telemetry(events, Silent(), NoMetrics()),
                    interrupt=Interrupt(lambda: None),
                ).run()

    def measure(self) -> dict[str, Any]:
        before = peak_mib()
        self.timed("plan, commit", lambda: self.drive(self.store()))
        driven = peak_mib()
        entries = self.store().index().last
        self.timed("resume, all done", lambda: self.drive(self.store()))
        self.timed("status", lambda: verdict(self.store(), [STAGE], {}))
        self.timed("read back", lambda: self.store().table(STAGE, "small_units"))
        self.timed("verify, unfinished", self.verified)
        store = self.store()
        with Claim(store.storage, self.paths) as claim:
            store.recover(claim)
            self.timed("finish", lambda: finish(store, [STAGE]))
        self.timed("verify, finished", self.verified)
        units = len(self.experiment.prompts)
        driver = self.seconds["plan, commit"] - Executed.seconds + self.seconds["finish"]
        return {
            "units": units,
            "seconds": self.seconds,
            "entries": entries,
            "driver_ms_per_unit": 1000 * driver / units,
            "peak_mib": {"prompts": before, "plan": Executed.planned_mib, "commits": driven, "all": peak_mib()},
        }

    def verified(self) -> None:
        result = verify(self.store(), SmallUnits(), self.experiment)  # type: ignore[arg-type]
        assert result.clean, result.faults[:3]
        assert result.units == len(self.experiment.prompts)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--root", help="where the runs lie, a folder or s3://bucket/prefix; a temporary folder if left out")
    parser.add_argument("--seconds-per-unit", type=float, default=0.05)
    parser.add_argument("--sleep", action="store_true", help="have units really take so long")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        Executed.sleep = options.seconds_per_unit if options.sleep else 0.0
        print(json.dumps(Bench(location(options.root), options.units[0]).measure()))
        return
    with tempfile.TemporaryDirectory() as scratch:
        for units in options.units:
            root = f"{options.root or scratch}/{units}"
            command = [sys.executable, "-m", "benchmarks.storage", "--one", "--units", str(units), "--root", root]
            command += ["--seconds-per-unit", str(options.seconds_per_unit), *(["--sleep"] if options.sleep else [])]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            tell(found, options.seconds_per_unit)


def tell(found: dict[str, Any], seconds_per_unit: float) -> None:
    milliseconds = found["driver_ms_per_unit"]
    share = milliseconds / (1000 * seconds_per_unit + milliseconds)
    print(f"{found['units']} units, {found['entries']} entries in the journal")
    print(f"  driver  {milliseconds:.3f} ms a unit: {share:.2%} of a run whose units take {seconds_per_unit:g} s")
    for name, seconds in found["seconds"].items():
        print(f"  {name:20} {seconds:8.2f} s {1000 * seconds / found['units']:8.3f} ms a unit")
    print("  peak after " + ", ".join(f"{name} {mib:.0f} MiB" for name, mib in found["peak_mib"].items()))


if __name__ == "__main__":
    main()

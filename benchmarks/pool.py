"""`python -m benchmarks.pool`: what a run of many short units on Ray actors costs its driver, pool, store and metrics together.

Units sleep instead of computing, so that more actors than cores can be had. Figures are the processor time that the driver's
process takes a unit (Ray's own threads in it included), the time of the run beside what the actors needed at the least, and
resident memory as the run goes on. Nothing here is asserted; the machine's load shows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import kernels
from actors.executor import Session, WorkerSpec
from actors.pool import PoolSettings, RayPool
from actors.tokenizer import CheckpointTokenizer
from benchmarks import storage
from runner.claim import Claim
from runner.driver import Driver
from runner.events import EventsLog
from runner.interrupt import Interrupt
from runner.metrics import RayMetrics
from runner.paths import RunPaths
from runner.progress import Silent
from runner.protocol import Experiment
from runner.storage import storage_at
from runner.store import RunStore
from runner.telemetry import Telemetry
from schemas.catalog import Prompt
from schemas.job import BreadthJob, Execution
from schemas.unit import Unit, UnitResult

UNIT_SECONDS = 0.05


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """A row a unit, after as long as they are said to take."""
    time.sleep(UNIT_SECONDS * len(units))
    return storage.execute(session, units)


class SleepingUnits(storage.SmallUnits):
    execute = staticmethod(execute)


class Sampling(Silent):
    """Progress that takes the processor time and the memory of this process: when the first unit is done, and at each quarter."""

    def __init__(self, units: int) -> None:
        self._quarters = [units * quarter // 4 for quarter in (1, 2, 3, 4)]
        self._done = 0
        self.resident: list[int] = []

    def committed(self, units: int) -> None:
        self._done += units
        while self._quarters and self._done >= self._quarters[0]:
            self._quarters.pop(0)
            self.resident.append(resident_mib())


class Started(RayPool):
    """A pool whose start is not counted."""

    def __init__(self, actors: int) -> None:
        super().__init__(WorkerSpec("builtin", "official", 1), execute, PoolSettings(actors=actors))
        self.began = (0.0, 0.0)

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        super().start(proceed)
        self.began = (time.process_time(), time.perf_counter())


def measure(root: Path, units: int, actors: int) -> None:
    checkpoint = kernels.Checkpoint.open(kernels.builtin_checkpoint())
    tokenizer = CheckpointTokenizer(checkpoint.directory, checkpoint_vocab_size=checkpoint.config.vocab_size)
    job = BreadthJob(schema_version=1, name="small", protocol="breadth", catalog="c", execution=Execution(batch=16))
    prompts = [Prompt(f"p{number}", "en", "ordinary", f"text number {number}") for number in range(units)]
    experiment = Experiment(job, prompts, checkpoint.identity, tokenizer.identity)
    paths, pool, progress = RunPaths(root), Started(actors), Sampling(units)
    store = RunStore(paths, SleepingUnits().schemas(), storage_at(root))
    with Claim(store.storage, paths) as claim:
        store.recover(claim)
        with EventsLog(store.storage, paths.events) as events:
            Driver(
                store,
                SleepingUnits(),  # type: ignore[arg-type]
                experiment,
                pool,
                build_id=kernels.BUILD_ID,
                telemetry=Telemetry(events, progress, RayMetrics(run="benchmark", protocol="small")),
                interrupt=Interrupt(lambda: None),
            ).run()
    processor, wall = time.process_time() - pool.began[0], time.perf_counter() - pool.began[1]
    print(
        f"{units} units of {UNIT_SECONDS:g} s on {actors} actors: driver {1000 * processor / units:.3f} ms a unit, "
        f"{processor / units / UNIT_SECONDS:.2%} of it; {wall:.1f} s, {units * UNIT_SECONDS / actors:.1f} s at the least; "
        f"MiB at each quarter: {', '.join(map(str, progress.resident))}; "
        f"events log {paths.root.joinpath('events.log').stat().st_size / units:.0f} bytes a unit"  # type: ignore[attr-defined]
    )


def resident_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--actors", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for units in options.units:
            measure(Path(scratch) / str(units), units, options.actors)


if __name__ == "__main__":
    main()

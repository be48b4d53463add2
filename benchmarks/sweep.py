"""A sweep of one fork on the embedded checkpoint: `python -m benchmarks.sweep --threads 1 2`, JSON on standard output.

Twice: as the protocol runs it, in this process (every order of scheme A, 8 tokens each, equal states run once), and as rows of
bare decoder steps, from one branch to 720, for what a branch-token costs at each number of rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import kernels
from actors.executor import Session, WorkerSpec
from actors.worker import Worker
from benchmarks import ROOT
from runner.preflight import prepare
from runner.protocols.sweep import execute, units
from schemas.job_file import load_job
from schemas.tables.sweep import SWEEP_FORKS, SWEEP_ORDERS

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 720)
TOKENS = 8
LAYER = 5
PROMPT = "why the sheep"


class Native:
    """What the branches' plan reads of the native stage: its results, committed."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables

    def table(self, stage: str, table: str) -> pa.Table:
        return self._tables[table]

    def units(self, stage: str) -> frozenset[str]:
        return frozenset()


def protocol(session: Session, block: int, repetitions: int) -> dict[str, Any]:
    """All 720 A orders in units of `block` branches, one lease of all units."""
    prepared = prepare(load_job(ROOT / "jobs" / "sweep.yaml", ["schemes=[A]", f"block={block}", f"horizon={TOKENS}"]))
    [result] = execute(session, units(prepared.experiment, "native", Native({})))
    planned = units(prepared.experiment, "branches", Native(result.tables))
    seconds, orders, executed = [], 0, 0
    for _ in range(repetitions):
        start = time.perf_counter()
        results = execute(session, planned)
        seconds.append(time.perf_counter() - start)
        orders = sum(result.tables[SWEEP_ORDERS.name].num_rows for result in results)
        executed = sum(sum(result.tables[SWEEP_FORKS.name]["executed"].to_pylist()) for result in results)
    return {"block": block, "orders": orders, "executed": executed, "seconds": seconds}


def bare_rows(session: Session, rows: int, repetitions: int) -> dict[str, Any]:
    """`rows` branches of one state, the first step with an order each, then native steps: seconds of all TOKENS steps, and how
    many different experts a layer's branches chose together in the last step, on average over layers.
    """
    decoder = session.decoder
    prefix = decoder.new_state()
    [result] = decoder.step([kernels.Row(prefix, session.tokenizer.encode(PROMPT))])
    seconds, experts = [], 0.0
    for _ in range(repetitions):
        states = [prefix.fork() for _ in range(rows)]
        changes = [kernels.Intervention(aggregation={LAYER: ("A", order)}) for order in range(rows)]
        plain = kernels.Intervention(capture=("route",))
        tokens = [result.token] * rows
        start = time.perf_counter()
        for step in range(TOKENS):
            each = changes if step == 0 else [plain] * rows
            results = decoder.step([kernels.Row(*row) for row in zip(states, ([token] for token in tokens), each, strict=True)])
            tokens = [one.token for one in results]
        seconds.append(time.perf_counter() - start)
        routes = np.stack([one.captures["route"][0] for one in results])
        experts = float(np.mean([len(np.unique(routes[:, layer])) for layer in range(routes.shape[1])]))
    return {"rows": rows, "tokens": TOKENS, "seconds": seconds, "experts_a_layer": experts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    found = []
    for threads in options.threads:
        session = Worker(WorkerSpec("builtin", "official", threads), "benchmark").session
        found.append(
            {
                "threads": threads,
                "protocol": [protocol(session, block, options.repetitions) for block in (720, 60)],
                "rows": [bare_rows(session, rows, options.repetitions) for rows in ROWS],
            }
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()

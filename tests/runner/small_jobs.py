"""Reduced jobs of the protocols, for the random checkpoint of random_runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random_runs import RandomRuns

    from runner.run import Run

JOBS: dict[str, dict[str, Any]] = {
    "replay": {"protocol": "replay", "horizon": 4, "chunk": 2},
    "sweep": {"protocol": "sweep", "fork": {"layer": 3}, "horizon": 4, "block": 7},
    "persistent": {"protocol": "persistent", "request_seeds": 5, "horizon": 4, "block": 2},
    "canonical": {"protocol": "canonical", "horizon": 4},
    "intermediates": {"protocol": "intermediates", "request_seeds": 5, "block": 2},
    "propagation": {"protocol": "propagation", "request_seed": 3, "horizon": 4, "layers": {"output": 1, "router": 2}},
}


def small_run(runs: RandomRuns, protocol: str) -> Run:
    """The finished run of a reduced job; carried out by the first test that asks for it."""
    return runs.run(protocol, JOBS[protocol])


def rows(run: Run, stages: Sequence[str] | None = None, table: str | None = None) -> list[dict[str, Any]]:
    """Rows of one table of the run, its first if none is named, of all stages if none are named."""
    name = table or next(iter(run.store.schemas))
    return [row for stage in stages or run.stages() for row in run.store.table(stage, name).to_pylist()]

"""Breadth (study 2.4.7, 3.5, B.3): one fork a prompt, the farthest B class injected, survivors carried to longer horizons.

A stage is a horizon. Every stage executes its prompts from the beginning, so a later stage must repeat the earlier one's fork and
first tokens bit for bit; `check` requires it. Ordered token IDs decide whether a branch separated from native.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.breadth_accounting import account, report_tables
from runner.protocols.breadth_execution import execute
from runner.protocols.common import check_job, check_positions, prompt_meaning, shared_meaning
from schemas.job import BreadthJob, Job
from schemas.job_file import JobFile
from schemas.tables import BREADTH_CLASSES, BREADTH_UNITS
from schemas.unit import Unit

name = "breadth"

needs_complete: Mapping[str, Sequence[str]] = {}

SPECS = (BREADTH_UNITS, BREADTH_CLASSES)

REPEATED = (
    "prompt_sha256",
    "prompt_token_ids",
    "fork_layer",
    "fork_position",
    "fork_token",
    "fork_experts",
    "fork_router_margin",
    "structural_classes",
    "distinct_moe_outputs",
    "distinct_post_mhc",
    "differing_from_native",
    "selected_class",
    "selected_order",
    "selected_linf",
    "native_post_mhc_sha256",
    "branch_post_mhc_sha256",
)
"""Columns of breadth_units that say what happened up to the fork, which no horizon can change."""

CONTINUED = ("native_token_ids", "branch_token_ids", "native_logit_margins", "branch_logit_margins")
"""Columns with an item a generated token: a later stage's begin with an earlier stage's."""


def schemas() -> Mapping[str, pa.Schema]:
    return {spec.name: spec.schema for spec in SPECS}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    breadth = _breadth(job.job)
    job.check_layer("fork.layer", breadth.fork.layer, config.num_hidden_layers)
    check_job(job, config)
    check_positions(job, "horizons", config, prompt_tokens, breadth.horizons[-1])


def stages(job: Job) -> Sequence[str]:
    return [_stage(horizon) for horizon in _breadth(job).horizons]


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """One unit a prompt. After the first stage, of prompts that an earlier stage saw and none saw separated."""
    job = _breadth(experiment.job)
    index = stages(job).index(stage)
    alive = {prompt.prompt_id for prompt in experiment.prompts}
    for earlier in stages(job)[:index]:
        rows = committed.table(earlier, BREADTH_UNITS.name).select(["prompt_id", "separated"]).to_pylist()
        alive &= {row["prompt_id"] for row in rows if not row["separated"]}
    shared = shared_meaning(experiment, SPECS) | {"horizon": job.horizons[index]}
    return [
        Unit(
            stage,
            prompt.prompt_id,
            shared | prompt_meaning(prompt),
            payload={"text": prompt.text},
            group=prompt.prompt_id,
        )
        for prompt in experiment.prompts
        if prompt.prompt_id in alive
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Rows have the tokens their horizon asks for, and every stage repeats the ones before it as far as they went."""
    violations: list[str] = []
    before: dict[str, dict[str, Any]] = {}
    for horizon in _breadth(experiment.job).horizons:
        for row in committed.table(_stage(horizon), BREADTH_UNITS.name).to_pylist():
            prompt = row["prompt_id"]
            for column in CONTINUED:
                if len(row[column]) != horizon:
                    violations.append(f"{prompt}, horizon {horizon}: {len(row[column])} items in {column}")
            for line in _differences(before.get(prompt), row):
                violations.append(f"{prompt}, horizon {horizon}: {line}")
            before[prompt] = row
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    return report_tables(account(experiment.prompts, separations(experiment, committed)))


def separations(experiment: Experiment, committed: Committed) -> dict[int, list[dict[str, Any]]]:
    """Horizon -> rows of breadth_units, less all but prompt_id and separated."""
    return {
        horizon: committed.table(_stage(horizon), BREADTH_UNITS.name).select(["prompt_id", "separated"]).to_pylist()
        for horizon in _breadth(experiment.job).horizons
    }


def _differences(earlier: Mapping[str, Any] | None, row: Mapping[str, Any]) -> list[str]:
    """What a row has otherwise than the row of the same prompt at the horizon before."""
    if earlier is None:
        return []
    horizon = earlier["horizon"]
    lines = [
        f"{column} is {row[column]}, at horizon {horizon} it was {earlier[column]}"
        for column in REPEATED
        if row[column] != earlier[column]
    ]
    for column in CONTINUED:
        if row[column][:horizon] != earlier[column]:
            lines.append(f"{column} begins with {row[column][:horizon]}, at horizon {horizon} it was {earlier[column]}")
    return lines


def _stage(horizon: int) -> str:
    return f"horizon-{horizon}"


def _breadth(job: Job) -> BreadthJob:
    if not isinstance(job, BreadthJob):
        raise TypeError(f"a breadth job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "separations", "stages", "units"]

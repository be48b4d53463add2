"""Native replay (study 3.1): the unmodified path executed twice must be the same path, before any perturbation is interpreted.

The reference pass processes the prompt in one step; the replay starts from a fresh state and is fed in chunks. They are units of
their own, so that on a cluster another process, or another host, may execute the replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, prompt_meaning, shared_meaning
from runner.protocols.replay_execution import execute
from schemas.job import Job
from schemas.job.replay import ReplayJob
from schemas.job_file import JobFile
from schemas.tables.replay import REPLAY_PASSES
from schemas.unit import Unit

name = "replay"

needs_complete: Mapping[str, Sequence[str]] = {}

STAGES = ("reference", "replay")

REPEATED = (
    "prompt_token_ids",
    "token_ids",
    "token_sha256",
    "text",
    "logit_margins",
    "logits_sha256",
    "positions",
    "layers",
    "routes",
    "routes_sha256",
    "router_margin_min",
    "state_sha256",
)
"""Columns that a replay must repeat. A mismatch of the first of them in this order says most."""


def schemas() -> Mapping[str, pa.Schema]:
    return {REPLAY_PASSES.name: REPLAY_PASSES.schema}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    check_job(job, config)
    check_positions(job, "horizon", config, prompt_tokens, _replay(job.job).horizon)


def stages(job: Job) -> Sequence[str]:
    return STAGES


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """One unit a prompt and stage."""
    job = _replay(experiment.job)
    shared = shared_meaning(experiment, (REPLAY_PASSES,))
    how = {"execution": stage, "chunk": job.chunk if stage == "replay" else None}
    return [
        Unit(
            stage, prompt.prompt_id, shared | how | prompt_meaning(prompt), payload={"text": prompt.text}, group=prompt.prompt_id
        )
        for prompt in experiment.prompts
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Scheme C in native order gives the native MoE outputs, and a replay repeats its reference in everything."""
    horizon = _replay(experiment.job).horizon
    references, replays = ({row["prompt_id"]: row for row in _rows(committed, stage)} for stage in STAGES)
    violations = []
    for row in (*references.values(), *replays.values()):
        where = f"{row['prompt_id']}, {row['execution']}"
        if len(row["token_ids"]) != horizon:
            violations.append(f"{where}: {len(row['token_ids'])} generated tokens instead of {horizon}")
        if row["c_outputs_compared"] != row["positions"] * row["layers"]:
            violations.append(
                f"{where}: {row['c_outputs_compared']} outputs for {row['positions']} positions, {row['layers']} layers"
            )
        if row["c_moe_max_abs"] != 0 or row["c_outputs_differing"]:
            violations.append(
                f"{where}: scheme C in native order differs from native in {row['c_outputs_differing']} MoE outputs, "
                f"c_moe_max_abs {row['c_moe_max_abs']}"
            )
    for prompt, row in replays.items():
        reference = references.get(prompt)
        differing = [column for column in REPEATED if reference is not None and row[column] != reference[column]]
        if differing:
            violations.append(f"{prompt}: the replay differs from the reference pass in {', '.join(differing)}")
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    references = {row["prompt_id"]: row for row in _rows(committed, "reference")}
    replays = {row["prompt_id"]: row for row in _rows(committed, "replay")}
    both = [(references[prompt], replay) for prompt, replay in replays.items() if prompt in references]
    total = len(experiment.prompts)
    lines = [
        (what, f"{sum(one[column] == other[column] for one, other in both)}/{total}")
        for what, column in (
            ("route trajectory equal", "routes"),
            ("token sequence equal", "token_ids"),
            ("text equal", "text"),
            ("logits bitwise equal", "logits_sha256"),
            ("persistent state bitwise equal", "state_sha256"),
        )
    ]
    rows = [*references.values(), *replays.values()]
    compared = sum(row["c_outputs_compared"] for row in rows)
    differing = sum(row["c_outputs_differing"] for row in rows)
    lines.append(("MoE outputs that C in native order repeats", f"{compared - differing}/{compared}"))
    lines.append(("c_moe_max_abs", f"{max((row['c_moe_max_abs'] for row in rows), default=0.0):g}"))
    return [ReportTable("Native replay", ("compared", "result"), lines)]


def _rows(committed: Committed, stage: str) -> list[dict[str, Any]]:
    return list(committed.table(stage, REPLAY_PASSES.name).to_pylist())


def _replay(job: Job) -> ReplayJob:
    if not isinstance(job, ReplayJob):
        raise TypeError(f"a replay job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

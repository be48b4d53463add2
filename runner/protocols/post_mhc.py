"""Post-mHC endpoint substitution (study 2.4.2, 3.2.2): adding one branch's endpoint difference to the native state at the fork
reproduces everything the branch does from there on.

The control must hold on any checkpoint, because a decoder is a function of its state; so `check` requires every comparison to be
exact. Whether branch and native then differ in what they say is measured, and reported beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions
from runner.protocols.endpoint import inequalities
from runner.protocols.post_mhc_execution import execute, vectors_compared
from runner.protocols.substitution import STAGE, by_prompt, check_class, chosen, one_unit_a_prompt, separation
from schemas.job import Job, PostMhcJob
from schemas.job_file import JobFile
from schemas.tables import POST_MHC_CHECKPOINTS, POST_MHC_PREFORK, POST_MHC_UNITS
from schemas.unit import Unit

name = "post_mhc"

needs_complete: Mapping[str, Sequence[str]] = {}

SPECS = (POST_MHC_UNITS, POST_MHC_PREFORK, POST_MHC_CHECKPOINTS)


def schemas() -> Mapping[str, pa.Schema]:
    return {spec.name: spec.schema for spec in SPECS}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    own = _own(job.job)
    check_job(job, config)
    job.check_layer("fork.layer", own.fork.layer, config.num_hidden_layers)
    check_class(job, own.fork.structural_class, config)
    check_positions(job, "decode_inputs", config, prompt_tokens, own.decode_inputs + 1)


def stages(job: Job) -> Sequence[str]:
    return [STAGE]


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    return one_unit_a_prompt(experiment, SPECS)


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Every compared bit is equal, as many as the formulas say were compared, and rows and counts agree."""
    rows = committed.table(STAGE, POST_MHC_UNITS.name).to_pylist()
    prefork = by_prompt(committed.table(STAGE, POST_MHC_PREFORK.name).to_pylist())
    checkpoints = by_prompt(committed.table(STAGE, POST_MHC_CHECKPOINTS.name).to_pylist())
    violations = []
    for row in rows:
        prompt = row["prompt_id"]
        violations += [f"{prompt}: {line}" for line in _violations(row, prefork[prompt], checkpoints[prompt])]
    return violations


def _violations(
    row: Mapping[str, Any], prefork: Sequence[Mapping[str, Any]], checkpoints: Sequence[Mapping[str, Any]]
) -> list[str]:
    layers, fork, inputs = row["layers"], row["fork_layer"], row["decode_inputs"]
    counts = {
        "prefork": fork,
        "vectors": vectors_compared(layers, fork, inputs),
        "routes": inputs * layers,
        "predictions": inputs + 1,
    }
    lines = inequalities(row, ("prefork", "vectors", "routes", "predictions"), counts)
    if row["branch_endpoint_sha256"] != row["substituted_endpoint_sha256"] or row["reconstruction_linf"] != 0:
        lines.append("the substituted endpoint is not the branch's")
    # The digests and distances themselves, not only the counts made of them.
    lines += [
        f"layer {one['layer']} before the fork differs"
        for one in prefork
        if one["branch_sha256"] != one["native_sha256"] or one["linf"] != 0
    ]
    lines += [
        f"position {one['position']}, layer {one['layer']}: the post-mHC states differ"
        for one in checkpoints
        if one["branch_sha256"] != one["substituted_sha256"] or one["linf"] not in (0, None)
    ]
    lines += [
        f"position {one['position']}, layer {one['layer']}: the routes differ"
        for one in checkpoints
        if one["branch_experts"] != one["substituted_experts"]
    ]
    found = {
        "prefork": len(prefork),
        "vectors": sum(one["branch_sha256"] is not None for one in checkpoints),
        "routes": len(checkpoints),
    }
    lines += [f"{what}: {found[what]} rows instead of {counts[what]}" for what in found if found[what] != counts[what]]
    return lines


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    rows = committed.table(STAGE, POST_MHC_UNITS.name).to_pylist()
    columns = ("prompt", "class", "chosen by", "pre-fork", "endpoint", "post-mHC", "routes", "tokens", "native differs")
    lines = [
        (
            row["prompt_id"],
            row["structural_class"],
            row["chosen_by"],
            f"{row['prefork_equal']}/{row['prefork_compared']}",
            "exact" if row["reconstruction_linf"] == 0 else f"off by {row['reconstruction_linf']:g}",
            f"{row['vectors_equal']}/{row['vectors_compared']}",
            f"{row['routes_equal']}/{row['routes_compared']}",
            f"{row['predictions_equal']}/{row['predictions_compared']}",
            separation(row),
        )
        for row in rows
    ]
    return [ReportTable("Post-mHC substitution: branch against native plus difference", columns, lines), *chosen(rows)]


def _own(job: Job) -> PostMhcJob:
    if not isinstance(job, PostMhcJob):
        raise TypeError(f"a post_mhc job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

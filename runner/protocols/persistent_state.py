"""Persistent-state substitution at a decode boundary (study 2.4.3, 3.2.3): adding one branch's state difference to the native
state after the forked position reproduces everything the branch does from the next token on.

As for post_mhc, the control must hold on any checkpoint, and `check` requires it; what branch and native then say is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions
from runner.protocols.endpoint import inequalities
from runner.protocols.persistent_state_execution import execute
from runner.protocols.substitution import STAGE, by_prompt, check_class, chosen, one_unit_a_prompt, separation
from schemas.errors import InvalidInput
from schemas.job import Job, PersistentStateJob
from schemas.job_file import JobFile
from schemas.tables import PERSISTENT_STATE_CHECKPOINTS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_UNITS
from schemas.unit import Unit

name = "persistent_state"

needs_complete: Mapping[str, Sequence[str]] = {}

SPECS = (PERSISTENT_STATE_UNITS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_CHECKPOINTS)


def schemas() -> Mapping[str, pa.Schema]:
    return {spec.name: spec.schema for spec in SPECS}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    own = _own(job.job)
    check_job(job, config)
    job.check_layer("fork.layer", own.fork.layer, config.num_hidden_layers)
    if own.fork.layer == config.num_hidden_layers - 1:
        allowed = f"less than {own.fork.layer}, the last: a fork there is past every layer's attention and changes no state"
        raise InvalidInput(str(job.path), "fork.layer", str(own.fork.layer), allowed)
    check_class(job, own.fork.structural_class, config)
    check_positions(job, "decode_inputs", config, prompt_tokens, own.decode_inputs + 1)


def stages(job: Job) -> Sequence[str]:
    return [STAGE]


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    return one_unit_a_prompt(experiment, SPECS)


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Every compared bit is equal, as many as the formulas say were compared, and the boundary is one the fork can have made."""
    rows = committed.table(STAGE, PERSISTENT_STATE_UNITS.name).to_pylist()
    layers = by_prompt(committed.table(STAGE, PERSISTENT_STATE_LAYERS.name).to_pylist())
    checkpoints = by_prompt(committed.table(STAGE, PERSISTENT_STATE_CHECKPOINTS.name).to_pylist())
    violations = []
    for row in rows:
        prompt = row["prompt_id"]
        lines = _boundary_violations(row, layers[prompt]) + _violations(row, checkpoints[prompt])
        violations += [f"{prompt}: {line}" for line in lines]
    return violations


def _boundary_violations(row: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    if len(layers) != row["layers"] or sum(one["state_values"] for one in layers) != row["state_values"]:
        lines.append(f"{len(layers)} layer records with {sum(one['state_values'] for one in layers)} values")
    # The fork changes what its layer's experts give, which is after that layer's attention: the state of it and of the ones
    # before is committed already (study 3.2.3).
    lines += [
        f"layer {one['layer']}, not after the fork's, has {one['differing_values']} differing values"
        for one in layers
        if one["layer"] <= row["fork_layer"] and one["differing_values"]
    ]
    lines += [f"layer {one['layer']}: the FP64 difference does not rebuild it" for one in layers if not one["fp64_rebuilt"]]
    if row["branch_state_sha256"] != row["substituted_state_sha256"]:
        lines.append("the substituted state is not the branch's")
    if not row["native_next_token"] == row["branch_next_token"] == row["substituted_next_token"]:
        lines.append("the executions predict different tokens at the boundary")
    return lines


def _violations(row: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]]) -> list[str]:
    later = (row["decode_inputs"] - 1) * row["layers"]
    counts = {"post_mhc": later, "states": later, "routes": later, "predictions": row["decode_inputs"] + 1}
    lines = inequalities(row, tuple(counts), counts)
    if len(checkpoints) != later:
        lines.append(f"{len(checkpoints)} checkpoint rows instead of {later}")
    for one in checkpoints:
        place = f"position {one['position']}, layer {one['layer']}"
        if one["branch_post_mhc_sha256"] != one["substituted_post_mhc_sha256"] or one["post_mhc_linf"] != 0:
            lines.append(f"{place}: the post-mHC states differ")
        if one["branch_state_sha256"] != one["substituted_state_sha256"] or one["state_differing_values"]:
            lines.append(f"{place}: the persistent states differ")
        if one["branch_experts"] != one["substituted_experts"]:
            lines.append(f"{place}: the routes differ")
    return lines


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    rows = committed.table(STAGE, PERSISTENT_STATE_UNITS.name).to_pylist()
    boundary = ("prompt", "class", "chosen by", "differing values", "layers", "largest", "FP32 rebuilds", "FP64")
    boundary_rows = [
        (
            row["prompt_id"],
            row["structural_class"],
            row["chosen_by"],
            f"{row['differing_values']}/{row['state_values']}",
            f"{row['differing_layers']}/{row['layers']}",
            f"{row['max_abs_difference']:g}",
            f"{row['fp32_layers_rebuilt']}/{row['layers']}",
            f"{row['fp64_layers_rebuilt']}/{row['layers']}",
        )
        for row in rows
    ]
    compared = ("prompt", "next token", "post-mHC", "persistent state", "routes", "tokens", "native differs")
    compared_rows = [
        (
            row["prompt_id"],
            row["native_next_token"],
            f"{row['post_mhc_equal']}/{row['post_mhc_compared']}",
            f"{row['states_equal']}/{row['states_compared']}",
            f"{row['routes_equal']}/{row['routes_compared']}",
            f"{row['predictions_equal']}/{row['predictions_compared']}",
            separation(row),
        )
        for row in rows
    ]
    return [
        ReportTable("Persistent state at the decode boundary: branch against native", boundary, boundary_rows),
        ReportTable("Persistent-state substitution: branch against native plus difference", compared, compared_rows),
        *chosen(rows),
    ]


def _own(job: Job) -> PersistentStateJob:
    if not isinstance(job, PersistentStateJob):
        raise TypeError(f"a persistent_state job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

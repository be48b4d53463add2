"""Intermediate values under random schedules of one scheme, by default C, bit for bit against native (study 3.6, B.5).

Prompts are processed and nothing is generated: MoE outputs, post-mHC states and next-router scores of every prompt position and
layer, and the logits of every prompt position. That C is invariant to order is a measurement; nothing here requires it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import kernels
from actors.executor import Session
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, encode, prompt_meaning, require_planned, shared_meaning
from runner.protocols.orders import GENERATOR
from runner.protocols.schedules import NATIVE, random, schedule_violations
from schemas.errors import InvalidInput
from schemas.job import Job
from schemas.job.persistent import IntermediatesJob
from schemas.job_file import JobFile
from schemas.tables.persistent import INTERMEDIATE_CHECKS
from schemas.unit import Unit, UnitResult

name = "intermediates"

needs_complete: Mapping[str, Sequence[str]] = {}

STAGE = "schedules"

KINDS = {"moe": "moe_output", "post_mhc": "post_mhc", "router": "router_scores", "logits": "logits"}
"""Prefix of the columns of intermediate_checks -> what is captured for it."""


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of intermediate_checks for each unit, its native reference and all its schedules in one step."""
    require_planned(session, units)
    return [_execute(session, unit) for unit in units]


def _execute(session: Session, unit: Unit) -> UnitResult:
    parameters, config, decoder = unit.meaning["parameters"], session.checkpoint.config, session.decoder
    prompt = encode(session, unit, 1)
    seeds = range(int(unit.meaning["first_seed"]), int(unit.meaning["end_seed"]))
    scheme, seed = parameters["scheme"], int(parameters["experiment_seed"])
    conditions = [random(scheme, seed, unit.prompt_id, request_seed, config) for request_seed in seeds]
    rows = [
        kernels.Row(decoder.new_state(), prompt, condition.intervention(*KINDS.values())) for condition in (NATIVE, *conditions)
    ]
    native, *scheduled = (_records(result) for result in decoder.step(rows))
    positions, layers = len(prompt), config.num_hidden_layers
    expected = positions * (layers + layers + (layers - 1) + 1)
    found = []
    for condition, records in zip(conditions, scheduled, strict=True):
        differing = {kind: _differing(records[kind], native[kind]) for kind in KINDS}
        missing = expected - sum(len(vectors) for vectors in records.values())
        found.append(
            {
                "prompt_id": unit.prompt_id,
                "scheme": condition.scheme,
                "request_seed": condition.request_seed,
                "orders": condition.orders,
                "experts_per_token": config.num_experts_per_tok,
                "positions": positions,
                "layers": layers,
                "records_expected": expected,
                "records_missing": missing,
                "bitwise_equal": missing == 0 and not any(differing.values()),
                "unit_key": unit.key,
            }
            | {f"{kind}_differing": count for kind, count in differing.items()}
            | {f"{kind}_linf": float(np.abs(records[kind] - native[kind]).max(initial=0)) for kind in KINDS}
        )
    return UnitResult(unit.key, {INTERMEDIATE_CHECKS.name: INTERMEDIATE_CHECKS.build(found)})


def _records(result: kernels.StepResult) -> dict[str, npt.NDArray[np.float32]]:
    """Kind -> FP32 [vectors, width]: a vector for each position and layer, of next-router scores for layers 1 and up."""
    captures = {kind: np.asarray(result.captures[capture], dtype=np.float32) for kind, capture in KINDS.items()}
    captures["router"] = captures["router"][:, 1:]
    widths = {kind: values.shape[-1] for kind, values in captures.items()}
    widths["post_mhc"] *= captures["post_mhc"].shape[-2]  # all streams of a state
    return {kind: values.reshape(-1, widths[kind]) for kind, values in captures.items()}


def _differing(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> int:
    """Number of vectors with other bits."""
    return int(np.count_nonzero(np.any(a.view(np.uint32) != b.view(np.uint32), axis=-1)))


def schemas() -> Mapping[str, pa.Schema]:
    return {INTERMEDIATE_CHECKS.name: INTERMEDIATE_CHECKS.schema}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    check_job(job, config)
    if config.num_hidden_layers < 2:
        raise InvalidInput(str(job.path), "checkpoint", "1 layer", "at least 2: a router after an aggregation is looked at")
    check_positions(job, "catalog", config, prompt_tokens, 1)


def stages(job: Job) -> Sequence[str]:
    return (STAGE,)


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """A unit a prompt and block of request seeds."""
    job = _intermediates(experiment.job)
    shared = shared_meaning(experiment, (INTERMEDIATE_CHECKS,)) | {"schedules": GENERATOR}
    return [
        Unit(
            stage,
            prompt.prompt_id,
            shared | {"first_seed": first, "end_seed": min(first + job.block, job.request_seeds)} | prompt_meaning(prompt),
            payload={"text": prompt.text},
            group=prompt.prompt_id,
        )
        for prompt in experiment.prompts
        for first in range(0, job.request_seeds, job.block)
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """The drawn schedules, no missing record, and differences exactly where bits differ."""
    rows = _rows(committed)
    violations = schedule_violations(rows, _intermediates(experiment.job).experiment_seed)
    for row in rows:
        where = f"{row['prompt_id']}, scheme {row['scheme']}, request seed {row['request_seed']}"
        if row["records_missing"]:
            violations.append(f"{where}: {row['records_missing']} of {row['records_expected']} records are missing")
        for kind in KINDS:
            if row[f"{kind}_linf"] != 0 and not row[f"{kind}_differing"]:
                violations.append(f"{where}: {kind}_linf {row[f'{kind}_linf']} with bitwise equal records")
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(committed):
        groups[row["prompt_id"]].append(row)
    lines = [
        (
            prompt,
            len(rows),
            sum(row["records_missing"] for row in rows),
            *(f"{max(row[f'{kind}_linf'] for row in rows):g}" for kind in KINDS),
            f"{sum(row['bitwise_equal'] for row in rows)}/{len(rows)}",
        )
        for prompt, rows in groups.items()
    ]
    columns = (
        "prompt",
        "schedules",
        "missing",
        *(f"{kind} max L-inf" for kind in ("MoE", "post-mHC", "router", "LM")),
        "bitwise equal",
    )
    return [ReportTable(f"Scheme {_intermediates(experiment.job).scheme} against native, prompt positions", columns, lines)]


def _rows(committed: Committed) -> list[dict[str, Any]]:
    return list(committed.table(STAGE, INTERMEDIATE_CHECKS.name).to_pylist())


def _intermediates(job: Job) -> IntermediatesJob:
    if not isinstance(job, IntermediatesJob):
        raise TypeError(f"an intermediates job, not {type(job).__name__}")
    return job


__all__ = ["KINDS", "STAGE", "check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

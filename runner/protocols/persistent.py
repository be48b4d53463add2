"""Persistent layer-static schedules (study 2.4.5, 3.6, B.4): every scheme under the same random schedules, and both references.

Stage "references": for each prompt the native baseline, and each scheme's identity-order trajectory, its canonical reference.
Stage "schedules": the trajectories that are counted, prompts times request seeds times schemes, a unit for each block of seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from actors.executor import Session
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, encode, prompt_meaning, require_planned, shared_meaning
from runner.protocols.orders import GENERATOR, IDENTITY
from runner.protocols.persistent_accounting import account, report_tables
from runner.protocols.schedules import NATIVE, continue_under, identity, random, schedule_violations, trajectory_row
from schemas.job import Job
from schemas.job.persistent import PersistentJob
from schemas.job_file import JobFile
from schemas.tables.persistent import PERSISTENT_TRAJECTORIES
from schemas.unit import Unit, UnitResult

name = "persistent"

needs_complete: Mapping[str, Sequence[str]] = {}

STAGES = ("references", "schedules")


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of persistent_trajectories for each unit. Raises ConformanceFinding when the worker has another checkpoint."""
    require_planned(session, units)
    return [_execute(session, unit) for unit in units]


def _execute(session: Session, unit: Unit) -> UnitResult:
    parameters, config = unit.meaning["parameters"], session.checkpoint.config
    horizon = int(parameters["horizon"])
    if unit.meaning["schedules"] == "references":
        conditions = [NATIVE, *(identity(scheme, config) for scheme in parameters["schemes"])]
    else:
        seed = int(unit.meaning["experiment_seed"])
        conditions = [
            random(scheme, seed, unit.prompt_id, request_seed, config)
            for request_seed in range(int(unit.meaning["first_seed"]), int(unit.meaning["end_seed"]))
            for scheme in parameters["schemes"]
        ]
    trajectories = continue_under(session.decoder, encode(session, unit, horizon), conditions, horizon)
    rows = [trajectory_row(session, unit, *pair) for pair in zip(conditions, trajectories, strict=True)]
    return UnitResult(unit.key, {PERSISTENT_TRAJECTORIES.name: PERSISTENT_TRAJECTORIES.build(rows)})


def schemas() -> Mapping[str, pa.Schema]:
    return {PERSISTENT_TRAJECTORIES.name: PERSISTENT_TRAJECTORIES.schema}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    check_job(job, config)
    check_positions(job, "horizon", config, prompt_tokens, _persistent(job.job).horizon)


def stages(job: Job) -> Sequence[str]:
    return STAGES


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """Stage "references": a unit a prompt. Stage "schedules": a unit a prompt and block of request seeds, with all schemes.

    Only the second draws, so only there the seed is part of what a unit means.
    """
    job = _persistent(experiment.job)
    shared = shared_meaning(experiment, (PERSISTENT_TRAJECTORIES,))
    if stage == "references":
        blocks: list[dict[str, Any]] = [{"schedules": "references"}]
    else:
        drawn = {"schedules": GENERATOR, "experiment_seed": job.experiment_seed}
        blocks = [
            drawn | {"first_seed": first, "end_seed": min(first + job.block, job.request_seeds)}
            for first in range(0, job.request_seeds, job.block)
        ]
    return [
        Unit(
            stage,
            prompt.prompt_id,
            shared | block | prompt_meaning(prompt),
            payload={"text": prompt.text},
            group=prompt.prompt_id,
        )
        for prompt in experiment.prompts
        for block in blocks
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Token counts; the drawn schedules, the same for all schemes; every scheme for every request seed; both references."""
    job = _persistent(experiment.job)
    references, schedules = (list(committed.table(stage, PERSISTENT_TRAJECTORIES.name).to_pylist()) for stage in STAGES)
    violations = horizon_violations((*references, *schedules), job.horizon)
    violations += reference_violations(references, job.schemes)
    violations += schedule_violations(schedules, job.experiment_seed)
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in schedules:
        found[row["prompt_id"], row["request_seed"]].append(row["scheme"])
    for (prompt, seed), schemes in found.items():
        if schemes != list(job.schemes):
            violations.append(f"{prompt}, request seed {seed}: schemes {schemes} instead of {list(job.schemes)}")
        if not 0 <= seed < job.request_seeds:
            violations.append(f"{prompt}: request seed {seed}, of {job.request_seeds}")
    return violations


def horizon_violations(rows: Iterable[Mapping[str, Any]], horizon: int) -> list[str]:
    """Trajectories with another number of tokens than was asked for."""
    return [
        f"{row['prompt_id']}, scheme {row['scheme']}, {row['schedule']} schedule: {len(row['token_ids'])} generated tokens "
        f"instead of {horizon}"
        for row in rows
        if len(row["token_ids"]) != horizon
    ]


def reference_violations(rows: Iterable[Mapping[str, Any]], schemes: Sequence[str]) -> list[str]:
    """Prompts without exactly one native and one identity-order trajectory a scheme."""
    expected = [("native", "native"), *((scheme, "identity") for scheme in schemes)]
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    violations = []
    for row in rows:
        found[row["prompt_id"]].append((row["scheme"], row["schedule"]))
        if any(order != IDENTITY for order in row["orders"]):
            violations.append(f"{row['prompt_id']}, scheme {row['scheme']}: a reference in another order than the identity")
    violations += [f"{prompt}: references {those} instead of {expected}" for prompt, those in found.items() if those != expected]
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    job = _persistent(experiment.job)
    references, schedules = (committed.table(stage, PERSISTENT_TRAJECTORIES.name).to_pylist() for stage in STAGES)
    return report_tables(account(references, schedules), planned=len(experiment.prompts) * job.request_seeds, horizon=job.horizon)


def _persistent(job: Job) -> PersistentJob:
    if not isinstance(job, PersistentJob):
        raise TypeError(f"a persistent job, not {type(job).__name__}")
    return job


__all__ = ["STAGES", "check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

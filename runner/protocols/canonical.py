"""The same-mode canonical reference (study 2.4.6, 2.7): the identity order at every layer, for every scheme, beside native."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

import kernels
from actors.executor import Session
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, encode, prompt_meaning, require_planned, shared_meaning
from runner.protocols.persistent import horizon_violations, reference_violations
from runner.protocols.persistent_accounting import account, shift_table
from runner.protocols.schedules import NATIVE, continue_under, identity, trajectory_row
from schemas.job import Job
from schemas.job.persistent import CanonicalJob
from schemas.job_file import JobFile
from schemas.tables.persistent import CANONICAL_TRAJECTORIES
from schemas.unit import Unit, UnitResult

name = "canonical"

needs_complete: Mapping[str, Sequence[str]] = {}

STAGE = "identity"


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of canonical_trajectories for each unit: native, then each scheme's identity order."""
    require_planned(session, units)
    results = []
    for unit in units:
        parameters = unit.meaning["parameters"]
        horizon = int(parameters["horizon"])
        conditions = [NATIVE, *(identity(scheme, session.checkpoint.config) for scheme in parameters["schemes"])]
        trajectories = continue_under(session.decoder, encode(session, unit, horizon), conditions, horizon)
        rows = [trajectory_row(session, unit, *pair) for pair in zip(conditions, trajectories, strict=True)]
        results.append(UnitResult(unit.key, {CANONICAL_TRAJECTORIES.name: CANONICAL_TRAJECTORIES.build(rows)}))
    return results


def schemas() -> Mapping[str, pa.Schema]:
    return {CANONICAL_TRAJECTORIES.name: CANONICAL_TRAJECTORIES.schema}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    check_job(job, config)
    check_positions(job, "horizon", config, prompt_tokens, _canonical(job.job).horizon)


def stages(job: Job) -> Sequence[str]:
    return (STAGE,)


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """One unit a prompt."""
    shared = shared_meaning(experiment, (CANONICAL_TRAJECTORIES,))
    return [
        Unit(stage, prompt.prompt_id, shared | prompt_meaning(prompt), payload={"text": prompt.text}, group=prompt.prompt_id)
        for prompt in experiment.prompts
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """Token counts, and for each prompt native and every scheme once, in the identity order."""
    job = _canonical(experiment.job)
    rows = committed.table(STAGE, CANONICAL_TRAJECTORIES.name).to_pylist()
    return horizon_violations(rows, job.horizon) + reference_violations(rows, job.schemes)


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    rows = committed.table(STAGE, CANONICAL_TRAJECTORIES.name).to_pylist()
    texts = [(row["prompt_id"], row["scheme"], row["text"]) for row in rows]
    return [shift_table(account(rows, ())), ReportTable("Continuations", ("prompt", "scheme", "text"), texts)]


def _canonical(job: Job) -> CanonicalJob:
    if not isinstance(job, CanonicalJob):
        raise TypeError(f"a canonical job, not {type(job).__name__}")
    return job


__all__ = ["STAGE", "check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

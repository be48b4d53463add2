"""`runner plan`: which units a job has, and why each will run or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import click

from runner.cli.options import default_run_dir, job_argument, json_option, print_json, run_dir_option, set_option
from runner.plan import PlannedUnit, Reason, plan_stage
from runner.preflight import Prepared, prepare
from runner.protocol import ReportTable
from runner.report import VISIBLE, console, rich_table
from runner.run_directory import run_directory
from runner.store import RunStore
from schemas.job_file import load_job

REASONS: tuple[Reason, ...] = ("new", "stale", "done", "failed")


@click.command()
@job_argument
@run_dir_option
@set_option
@click.option("--units", "by_unit", is_flag=True, help="Show every unit with its reason, not only how many have which.")
@json_option
def plan(*, job: Path, run_dir: PurePath | None, overrides: tuple[str, ...], by_unit: bool, as_json: bool) -> None:
    """Show which units of the job file JOB would run now, and why.

    new: not done. stale: planned before with another meaning; which field changed, and from what. done. failed: set aside, and
    what happened last. Nothing is written. A job that means something else than the run began with is shown with its stale units;
    submit refuses it.
    """
    prepared = prepare(load_job(job, overrides))
    print_plan(prepared, run_dir or default_run_dir(prepared.experiment.job.name), by_unit=by_unit, as_json=as_json)


def print_plan(prepared: Prepared, root: PurePath, *, as_json: bool, by_unit: bool = False) -> None:
    stages = _plan(prepared, RunStore(run_directory(root), prepared.protocol.schemas()))
    if as_json:
        print_json(
            {
                "run": str(root),
                "stages": {name: None if one is None else [_unit(unit) for unit in one] for name, one in stages.items()},
            }
        )
        return
    rows = [(name, *_counts(planned)) for name, planned in stages.items()]
    out = console()
    out.print(rich_table(ReportTable(f"Plan of {root}", ("stage", "units", *REASONS), rows)))
    for name, planned in stages.items():
        for line in _told(planned or []):
            out.print(f"stage {name}: {line}".translate(VISIBLE), soft_wrap=True)
    if by_unit:
        units = [
            (name, one.unit.prompt_id, one.unit.key[:12], one.reason, one.why)
            for name, planned in stages.items()
            for one in planned or ()
        ]
        out.print(rich_table(ReportTable("Units", ("stage", "prompt", "unit", "reason", "why"), units)))


def _told(planned: Sequence[PlannedUnit]) -> Iterator[str]:
    """Why units are stale, in groups that have the same fields changed, and which are set aside."""
    stale: dict[tuple[str, ...], list[PlannedUnit]] = {}
    for one in planned:
        if one.reason == "stale":
            stale.setdefault(one.changed, []).append(one)
    for changed, units in stale.items():
        same = len({one.changes for one in units}) == 1
        yield f"{len(units)} units are stale: {units[0].why if same else ', '.join(f'{field} changed' for field in changed)}"
    for one in planned:
        if one.reason == "failed":
            yield f"prompt {one.unit.prompt_id} is set aside: {one.why}"


def _plan(prepared: Prepared, store: RunStore) -> dict[str, list[PlannedUnit] | None]:
    """Stage -> its plan; None for stages whose units depend on results that are not there yet."""
    stages: dict[str, list[PlannedUnit] | None] = {}
    known = True
    protocol = prepared.protocol
    for stage in protocol.stages(prepared.experiment.job):
        known = known and not any(store.failures(needed) for needed in protocol.needs_complete.get(stage, ()))
        planned = plan_stage(store, stage, protocol.units(prepared.experiment, stage, store)) if known else None
        stages[stage] = planned
        known = planned is not None and all(unit.reason in ("done", "failed") for unit in planned)
    return stages


def _counts(planned: list[PlannedUnit] | None) -> tuple[str | int, ...]:
    if planned is None:
        return ("as the stages before find", *("" for _ in REASONS))
    counts = Counter(unit.reason for unit in planned)
    return (len(planned), *(counts[reason] for reason in REASONS))


def _unit(planned: PlannedUnit) -> dict[str, Any]:
    return {
        "unit": planned.unit.key,
        "prompt_id": planned.unit.prompt_id,
        "reason": planned.reason,
        "changed": list(planned.changed),
        "why": planned.why,
    }

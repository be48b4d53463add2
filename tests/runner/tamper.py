"""Finished runs whose committed rows somebody changed, and then made every plan, digest and mark consistent again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from runner.dataset import Part, digest_of, write_parts
from runner.mark import Mark
from runner.plan_files import Plan, PlanFile
from runner.run import Run, open_run

Rows = list[dict[str, Any]]


def copied(run: Run, to: Path) -> Run:
    shutil.copytree(run.paths.root, to)
    for path in to.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return open_run(to)


def unfinished(run: Run) -> None:
    """Make of a finished run one with all its work left: as it was when its plans were not yet written."""
    for path in [run.paths.finished, *run.store.data_files(), *(run.store.plan_paths(stage)[0] for stage in run.stages())]:
        path.unlink()


def rewritten(run: Run, to: Path, table: str, change: Callable[[Rows], Rows]) -> Run:
    """A copy of the run in which the first stage whose rows `change` changes has the changed ones."""
    copy = copied(run, to)
    for stage in copy.stages():
        found = copy.store.table(stage, table)
        rows = change(found.to_pylist())
        if rows != found.to_pylist():
            return _with_rows(copy, stage, {table: pa.Table.from_pylist(rows, schema=found.schema)}, {})
    raise AssertionError(f"nothing of {table} was changed")


def without_unit(run: Run, to: Path, stage: str) -> Run:
    """A copy of the run that lacks the last unit of a stage, plan and rows alike."""
    copy = copied(run, to)
    path = copy.store.plan_paths(stage)[0]
    *kept, last = path.read_bytes().splitlines(keepends=True)
    unit = json.loads(last)["unit"]
    tables = {}
    for table in copy.store.schemas:
        found = copy.store.table(stage, table)
        tables[table] = pa.Table.from_pylist([r for r in found.to_pylist() if r["unit_key"] != unit], schema=found.schema)
    path.write_bytes(b"".join(kept))
    plan = Plan([PlanFile(path.name, hashlib.sha256(b"".join(kept)).hexdigest(), len(kept))], len(kept))
    return _with_rows(copy, stage, tables, {stage: plan})


def _with_rows(run: Run, stage: str, tables: Mapping[str, pa.Table], plans: Mapping[str, Plan]) -> Run:
    """The run with these rows of a stage, under a mark that fits them."""
    mark = run.store.finished()
    assert mark is not None
    parts: list[Part] = []
    for part in mark.parts:
        if part.stage == stage and part.table in tables:
            part.path(run.paths).unlink()
        else:
            parts.append(part)
    for table, rows in tables.items():
        parts += write_parts(run.store.storage, run.paths, stage=stage, table=table, schema=rows.schema, rows=[rows])
    run.paths.finished.write_bytes(Mark(digest_of(parts), {**mark.plans, **plans}, parts, mark.finished).to_bytes())
    return open_run(run.paths.root)

"""Runs whose committed rows somebody changed, and then made every log, digest and mark consistent again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from runner import parquet
from runner.run import Run, open_run
from runner.store import Commit, CommittedFile

Rows = list[dict[str, Any]]


def copied(run: Run, to: Path) -> Run:
    shutil.copytree(run.paths.root, to)
    for path in to.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return open_run(to)


def rewritten(run: Run, to: Path, table: str, change: Callable[[Rows], Rows]) -> Run:
    """A copy of the run in which the first unit whose rows `change` changes has the changed ones."""
    copy = copied(run, to)
    for stage in copy.stages():
        for commit in copy.store.commits(stage).values():
            found = copy.store.read(stage, commit, table)
            rows = change(found.to_pylist())
            if rows != found.to_pylist():
                data = parquet.to_bytes(pa.Table.from_pylist(rows, schema=found.schema))
                copy.paths.data(table, stage, commit.unit).write_bytes(data)
                file = CommittedFile(table, hashlib.sha256(data).hexdigest(), len(data), len(rows))
                _log(copy, stage, Commit(commit.unit, {**commit.files, table: file}))
                return _marked(copy)
    raise AssertionError(f"nothing of {table} was changed")


def without_unit(run: Run, to: Path, stage: str) -> Run:
    """A copy of the run that lacks the last unit of a stage, plan, log and files alike."""
    copy = copied(run, to)
    *kept, last = copy.paths.plan(stage).read_text("utf-8").splitlines(keepends=True)
    copy.paths.plan(stage).write_text("".join(kept), "utf-8")
    unit = json.loads(last)["unit"]
    for table in copy.store.schemas:
        copy.paths.data(table, stage, unit).unlink()
    log = copy.store.commit_log(stage)
    records = [record for record in log.read().records if record["unit"] != unit]
    log.path.write_bytes(b"")
    log.append(records)
    return _marked(copy)


def _log(run: Run, stage: str, changed: Commit) -> None:
    log = run.store.commit_log(stage)
    records = [changed.as_record() if record["unit"] == changed.unit else record for record in log.read().records]
    log.path.write_bytes(b"")
    log.append(records)


def _marked(run: Run) -> Run:
    """The run opened anew, its mark of the end with the digest and the numbers of units that it has now."""
    run.store.refresh()
    now = {"dataset_digest": run.store.dataset_digest(), "units": {stage: len(run.store.units(stage)) for stage in run.stages()}}
    mark = json.loads(run.paths.finished.read_bytes()) | now
    run.paths.finished.write_text(json.dumps(mark), "utf-8")
    return open_run(run.paths.root)

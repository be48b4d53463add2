"""`runner ls`: the runs in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import click

from runner.claim import holder
from runner.cli.options import Location, json_option, print_json
from runner.protocol import ReportTable
from runner.report import console, rich_table
from runner.run import open_run
from runner.storage import Storage, storage_at
from schemas.errors import InvalidInput, RunnerError


@click.command()
@click.argument("directory", type=Location(), default="runs")
@json_option
def ls(directory: PurePath, as_json: bool) -> None:
    """List the runs in DIRECTORY (runs, if not given) with their state."""
    runs = list(_runs(directory))
    if as_json:
        print_json(runs)
        return
    columns = ("run", "protocol", "state", "done", "set aside", "started")
    console().print(
        rich_table(
            ReportTable(f"Runs in {directory}", columns, [[run[column.replace(" ", "_")] for column in columns] for run in runs])
        )
    )


def _runs(directory: PurePath) -> Iterator[dict[str, Any]]:
    if isinstance(directory, Path) and not directory.is_dir():
        raise InvalidInput(str(directory), "", "a file" if directory.exists() else "no such directory", "a directory of runs")
    storage = storage_at(directory)
    for root in storage.entries(directory):
        if not _may_hold_run(storage, root):
            continue
        try:
            yield _run(root)
        except (RunnerError, OSError) as error:
            state = f"unreadable: {error}"
            yield {"run": root.name, "protocol": "", "state": state, "done": "", "set_aside": "", "started": ""}


def _may_hold_run(storage: Storage, root: PurePath) -> bool:
    """A directory that may not be looked into may well hold a run; of all others it is plain whether they do."""
    if isinstance(root, Path) and root.is_dir() and not os.access(root, os.X_OK):
        return True
    return storage.exists(root / "run.json")


def _run(root: PurePath) -> dict[str, Any]:
    run = open_run(root)
    verdict = run.verdict()
    return {
        "run": root.name,
        "protocol": run.protocol.name,
        "state": "running" if holder(run.store.storage, run.paths) else verdict.state,
        "done": sum(stage.done for stage in verdict.stages),
        "set_aside": sum(stage.failed for stage in verdict.stages),
        "started": run.record.created,
    }

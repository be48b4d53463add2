"""`runner ls`: the runs in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from runner.claim import holder
from runner.cli.options import json_option, print_json
from runner.protocol import ReportTable
from runner.report import console, rich_table
from runner.run import open_run
from schemas.errors import InvalidInput


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False), default="runs")
@json_option
def ls(directory: Path, as_json: bool) -> None:
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


def _runs(directory: Path) -> Iterator[dict[str, Any]]:
    for record in sorted(directory.glob("*/run.json")):
        root = record.parent
        try:
            run = open_run(root)
            verdict = run.verdict()
        except InvalidInput as error:
            yield {"run": root.name, "protocol": "", "state": f"unreadable: {error}", "done": "", "set_aside": "", "started": ""}
            continue
        yield {
            "run": root.name,
            "protocol": run.protocol.name,
            "state": "running" if holder(run.paths.claim) else verdict.state,
            "done": sum(stage.done for stage in verdict.stages),
            "set_aside": sum(stage.failed for stage in verdict.stages),
            "started": run.record.created,
        }

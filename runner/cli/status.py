"""`runner status`: how far a run is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from runner.claim import holder
from runner.cli.options import json_option, print_json, run_argument
from runner.cli.watch import watch_run
from runner.events import read_events
from runner.protocol import ReportTable
from runner.report import console, rich_table, set_aside
from runner.run import Run, open_run


@click.command()
@run_argument
@click.option("--watch", is_flag=True, help="Go on showing it until no driver works on the run any more.")
@json_option
def status(run: Path, watch: bool, as_json: bool) -> None:
    """Show the state of RUN, stage by stage, who works on it, and which units were set aside."""
    if as_json:
        print_json(_status(open_run(run)))
        return
    out = console()
    if watch:
        watch_run(out, open_run(run))
    out.print(_rendered(_status(open_run(run))))


def _status(run: Run) -> dict[str, Any]:
    driver = holder(run.paths.claim)
    events = Counter(event["event"] for event in read_events(run.paths.events))
    return {
        "run": str(run.paths.root),
        "driver": None if driver is None else str(driver),
        **run.verdict().as_dict(),
        "leases_done": events["done"],
        "leases_failed": events["failed"],
        "set_aside": list(set_aside(run)),
    }


def _rendered(state: dict[str, Any]) -> Group:
    rows = [
        (one["stage"], "not yet" if one["planned"] is None else one["planned"], one["done"], one["failed"])
        for one in state["stages"]
    ]
    lines = [
        f"state   {state['state']}",
        f"driver  {state['driver'] or 'none'}",
        f"leases  {state['leases_done']} done, {state['leases_failed']} failed",
    ]
    lines += [
        f"set aside: prompt {one['prompt_id']} in stage {one['stage']}: {one['kind']} after {one['tries']} tries: {one['error']}"
        for one in state["set_aside"]
    ]
    table = rich_table(ReportTable(state["run"], ("stage", "planned", "done", "set aside"), rows))
    return Group(table, *(Text(line) for line in lines))

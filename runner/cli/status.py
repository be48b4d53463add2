"""`runner status`: how far a run is."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from runner.claim import holder
from runner.cli.options import head_option, json_option, print_json, run_argument
from runner.cli.watch import watch_run
from runner.events import read_events
from runner.protocol import ReportTable
from runner.remote import Head, said_as_json, there
from runner.report import console, rich_table, set_aside
from runner.run import Run, open_run
from schemas.errors import InvalidInput


@click.command()
@run_argument
@click.option("--watch", is_flag=True, help="Go on showing it until no driver works on the run any more.")
@head_option
@json_option
def status(*, run: PurePath, watch: bool, address: str | None, as_json: bool) -> None:
    """Show the state of RUN, stage by stage, who works on it, and which units were set aside.

    With --address it is looked at on that cluster's head, which takes some seconds.
    """
    if address is not None:
        _ask(address, run, watch=watch, as_json=as_json)
        return
    if as_json:
        print_json(_status(open_run(run)))
        return
    out = console()
    if watch:
        watch_run(out, open_run(run))
    out.print(_rendered(_status(open_run(run))))


def _ask(address: str, run: PurePath, *, watch: bool, as_json: bool) -> None:
    place = there(run)
    if watch:
        raise InvalidInput("status", "--watch", f"with {address}", "no --watch: `runner logs -f` follows a run on a cluster")
    head = Head(address)
    driver = head.driver_of(place)
    code, output = head.ask(["status", place, *(["--json"] if as_json else [])], place)
    if as_json and code == 0:
        print_json({"submission": driver.name, **said_as_json(output)})
    else:
        click.echo(f"{output}submission {driver.name} {'has ended' if driver.ended else 'goes on'}" if not as_json else output)
    click.get_current_context().exit(code)


def _status(run: Run) -> dict[str, Any]:
    driver = holder(run.store.storage, run.paths)
    events = Counter(event["event"] for event in read_events(run.store.storage, run.paths.events))
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

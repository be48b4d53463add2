"""`runner logs`: what happened in a run, or what its driver on a cluster says."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

import click

from runner.claim import Onlooker
from runner.cli.options import head_option, run_argument
from runner.events import EventsReader
from runner.remote import Head, there
from runner.run import Run, open_run

FOLLOW_SECONDS = 1.0

SILENT = frozenset({"time", "event", "detail", "environment", "cpu_features", "versions"})
"""Fields of events that only `--json` shows."""


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until no driver works on the run any more.")
@head_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with everything that is recorded.")
def logs(*, run: PurePath, follow: bool, address: str | None, as_json: bool) -> None:
    """Show what happened in RUN, an event a line: plans, workers that joined or left, leases done or failed, units set aside.

    With --address, what its latest driver on that cluster has printed, which --json changes nothing of.
    """
    if address is not None:
        _driver_output(Head(address), there(run), follow=follow)
        return
    for event in _events(open_run(run), follow=follow):
        click.echo(json.dumps(event, ensure_ascii=False) if as_json else _line(event))


def _driver_output(head: Head, root: str, *, follow: bool) -> None:
    submission = head.driver_of(root).name
    for chunk in head.server.follow(submission) if follow else [head.server.output(submission)]:
        sys.stdout.write(chunk)
        sys.stdout.flush()


def _events(run: Run, *, follow: bool) -> Iterator[dict[str, Any]]:
    reader = EventsReader(partial(run.store.storage.read_appended, run.paths.events))
    onlooker = Onlooker(run.store.storage, run.paths)
    while True:
        working = follow and onlooker.holder() is not None  # asked first, so that nothing of a last driver is missed
        yield from reader.new()
        if not working:
            return
        time.sleep(FOLLOW_SECONDS)


def _line(event: dict[str, Any]) -> str:
    told = [f"{name} {_short(value)}" for name, value in event.items() if name not in SILENT and value not in ("", [], {}, None)]
    return f"{event.get('time', '')} {event.get('event', ''):10} {', '.join(told)}"


def _short(value: Any) -> str:
    """A value in a few words; keys are told by their beginning."""
    match value:
        case float():
            return f"{value:.3f}"
        case str():
            return value[:12] if len(value) == 64 and value.isalnum() else value
        case list():
            return _short(value[0]) if len(value) == 1 else f"{len(value)}"
        case dict():
            return " ".join(f"{name}={_short(item)}" for name, item in value.items())
    return str(value)

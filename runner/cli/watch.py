"""The view of `runner status --watch`: live on a terminal, one line an interval elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from runner.activity import Activity
from runner.claim import Onlooker
from runner.events import EventsReader
from runner.progress import LINE_SECONDS
from runner.protocol import ReportTable
from runner.report import rich_table
from runner.run import Run

WATCH_SECONDS = 1.0
"""Between two looks."""


def watch_run(out: Console, run: Run) -> None:
    """Show what a run's driver does until none works on it any more; what came of it is for the caller to tell."""
    if out.is_terminal:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            for activity in _looks(run):
                live.update(rendered(activity), refresh=True)
    else:
        said, stage = 0.0, None
        for activity in _looks(run):
            if activity.stage is not None and (activity.stage.name != stage or time.monotonic() >= said + LINE_SECONDS):
                said, stage = time.monotonic(), activity.stage.name
                out.print(line(activity), soft_wrap=True)


def _looks(run: Run) -> Iterator[Activity]:
    activity, reader = Activity(), EventsReader(partial(run.store.storage.read_appended, run.paths.events))
    onlooker = Onlooker(run.store.storage, run.paths)
    while onlooker.holder() is not None:
        activity.feed(reader.new())
        yield activity
        time.sleep(WATCH_SECONDS)


def rendered(activity: Activity) -> Group:
    """Tables of stages and hosts, and how fast it goes."""
    stages = [(one.name, one.total, one.done, one.failed) for one in activity.stages.values()]
    hosts = []
    for name, host in sorted(activity.hosts.items()):
        in_hand = [one for one in activity.in_hand.values() if one.host == name]
        longest = max((activity.now() - one.since for one in in_hand), default=None)
        hosts.append(
            (
                name,
                len(host.workers),
                sum(one.units for one in in_hand),
                "" if longest is None else f"{max(longest, 0):.0f} s",
                host.done,
                f"{host.seconds / host.done:.3f} s" if host.done else "",
                host.failed_leases,
            )
        )
    titles = ("host", "workers", "in flight", "for up to", "done", "seconds a unit", "failed leases")
    return Group(
        rich_table(ReportTable("stages", ("stage", "planned", "done", "set aside"), stages)),
        rich_table(ReportTable("hosts", titles, hosts)),
        Text(line(activity)),
        *(Text(f"set aside: {told}") for told in activity.set_aside),
    )


def line(activity: Activity) -> str:
    """All that matters of a run in work, in one line."""
    stage = activity.stage
    if stage is None:
        return "nothing is planned yet"
    parts = [f"stage {stage.name}: {stage.done}/{stage.total} units done"]
    if stage.failed:
        parts.append(f"{stage.failed} failed")
    by_host = {name: len(host.workers) for name, host in sorted(activity.hosts.items()) if host.workers}
    workers = ", ".join(f"{count} on {name}" for name, count in by_host.items())
    parts.append(f"{activity.in_flight} in flight; workers: {workers or 'none'}")
    rate, left = activity.rate(), activity.seconds_left()
    if rate and left:
        parts.append(f"{rate:.3g} units/s, about {timedelta(seconds=round(left))} left of this stage")
    return ", ".join(parts)

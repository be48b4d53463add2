"""`runner retry`: try units again that were set aside, in a run that has ended, was stopped, or is still going on."""

from __future__ import annotations

import time
from pathlib import PurePath

import click

from runner.claim import EXPIRY_SECONDS, Claim, holder
from runner.cli.options import (
    actors_option,
    address_option,
    json_option,
    no_wait_option,
    print_json,
    run_argument,
    threads_option,
)
from runner.cli.remote_driver import go_on
from runner.cli.resume import prepare_again
from runner.cli.submit import drive
from runner.preflight import Prepared
from runner.remote import is_head
from runner.retry_request import RetryRequest
from runner.run import Run, open_run, require_same_run
from schemas.errors import RunBusy

LOOK_SECONDS = 0.2


@click.command()
@run_argument
@click.option("--failed", is_flag=True, required=True, help="Units that were set aside: the only ones that can be retried.")
@address_option
@actors_option
@threads_option
@no_wait_option
@json_option
def retry(
    *,
    run: PurePath,
    failed: bool,
    address: str | None,
    actors: int | None,
    threads: int | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Try the units of RUN that were set aside again, once their cause is gone, and go on with the run.

    What depends on them, such as later stages that skipped their prompts, is planned again and done too. While another driver
    works on the run, that one is asked to do it, and this command ends with 0 once it has taken the request.
    """
    if is_head(address):
        go_on(["retry", "--failed"], str(address), run, actors, threads, wait=not no_wait, as_json=as_json)
        return
    prepared = prepare_again(run, actors, threads)
    while not _cleared_here(prepared, run):
        if _handed_over(open_run(run), as_json=as_json):
            return
    drive(prepared, run, address, as_json=as_json)


def _cleared_here(prepared: Prepared, root: PurePath) -> bool:
    """Clear what was set aside, as nobody else works on the run; False when somebody does."""
    opened = open_run(root)
    try:
        with Claim(opened.store.storage, opened.paths, notice=lambda text: click.echo(f"runner: {text}", err=True)) as claim:
            require_same_run(prepared, opened)
            opened.store.recover(claim)
            RetryRequest(opened.store).clear(opened.stages())
    except RunBusy:
        return False
    return True


def _handed_over(run: Run, *, as_json: bool) -> bool:
    """Ask the live driver; False when it ended before it took the request, or may have."""
    units = sum(len(run.store.failures(stage)) for stage in run.stages())
    driver = str(holder(run.store.storage, run.paths) or "another driver")
    request = RetryRequest(run.store)
    if units:
        request.make()
        click.echo(f"runner: {driver} works on {run.paths.root}; waiting until it takes the request", err=True)
    # Of a driver on another machine only the claim can tell whether it lives.
    until = time.monotonic() + EXPIRY_SECONDS
    while request.pending():
        if holder(run.store.storage, run.paths) is None or time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    if as_json:
        print_json({"run": str(run.paths.root), "units": units, "taken_by": driver})
    elif units:
        click.echo(f"taken by {driver}: units to be tried again: {units}; `runner status {run.paths.root} --watch` shows them")
    else:
        click.echo(f"{run.paths.root}: no unit is set aside; {driver} works on it")
    return True

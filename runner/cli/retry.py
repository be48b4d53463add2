"""`runner retry`: try units again that were set aside."""

from __future__ import annotations

from pathlib import Path

import click

from runner.claim import Claim
from runner.cli.options import actors_option, address_option, json_option, run_argument, threads_option
from runner.cli.resume import prepare_again
from runner.cli.submit import drive
from runner.run import open_run, require_same_run


@click.command()
@run_argument
@click.option("--failed", is_flag=True, required=True, help="Units that were set aside: the only ones that can be retried.")
@address_option
@actors_option
@threads_option
@json_option
def retry(*, run: Path, failed: bool, address: str | None, actors: int | None, threads: int | None, as_json: bool) -> None:
    """Try the units of RUN that were set aside again, once their cause is gone, and go on with the run.

    What depends on them, such as later stages that skipped their prompts, is planned again and done too.
    """
    prepared = prepare_again(run, actors, threads)
    opened = open_run(run)
    with Claim(opened.paths.claim):
        require_same_run(prepared, opened)
        opened.store.recover()
        for stage in opened.stages():
            failures = opened.store.failures(stage)
            if failures:
                opened.store.failure_log(stage).append([{"unit": unit, "cleared": True} for unit in failures])
    drive(prepared, run, address, as_json=as_json)

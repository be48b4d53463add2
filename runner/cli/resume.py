"""`runner resume`: go on with a run, from its directory alone."""

from __future__ import annotations

from pathlib import PurePath

import click

from runner.cli.options import actors_option, address_option, json_option, no_wait_option, run_argument, threads_option
from runner.cli.remote_driver import go_on
from runner.cli.submit import drive
from runner.preflight import Prepared, prepare
from runner.remote import is_head
from runner.run import open_run
from schemas.job_file import JobFile


@click.command()
@run_argument
@address_option
@actors_option
@threads_option
@no_wait_option
@json_option
def resume(*, run: PurePath, address: str | None, actors: int | None, threads: int | None, no_wait: bool, as_json: bool) -> None:
    """Go on with the run in the directory RUN where it was stopped.

    Nothing but the directory is needed: it holds the job and the prompts. The number of workers may be another one each time.
    """
    if is_head(address):
        go_on(["resume"], str(address), run, actors, threads, wait=not no_wait, as_json=as_json)
        return
    drive(prepare_again(run, actors, threads), run, address, as_json=as_json)


def prepare_again(root: PurePath, actors: int | None, threads: int | None) -> Prepared:
    """A run's own job, checked again, spread as asked for now."""
    run = open_run(root)
    job_file = run.job_file
    said = {name: value for name, value in (("actors", actors), ("threads", threads)) if value is not None}
    execution = job_file.job.execution.model_copy(update=said)
    return prepare(JobFile(job_file.path, job_file.job.model_copy(update={"execution": execution})), run.catalog)

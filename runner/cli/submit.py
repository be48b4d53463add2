"""`runner submit`: carry a job out, or go on with it."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePath

import click

from runner.cli.options import (
    actors_option,
    address_option,
    default_run_dir,
    job_argument,
    json_option,
    no_wait_option,
    print_json,
    run_dir_option,
    set_option,
    spreading,
    threads_option,
)
from runner.cli.plan import print_plan
from runner.cli.remote_driver import follow_or_leave
from runner.interrupt import Interrupt
from runner.preflight import Prepared, prepare
from runner.progress import Bar, Lines, Progress, Silent
from runner.remote import Head, is_head, there
from runner.report import console, print_report, report_as_dict
from runner.run import carry_out, make_executor
from runner.run_directory import run_directory
from runner.storage import storage_at
from schemas.job_file import load_job


@click.command()
@job_argument
@run_dir_option
@address_option
@actors_option
@threads_option
@set_option
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, run and write nothing.")
@no_wait_option
@json_option
def submit(
    *,
    job: Path,
    run_dir: PurePath | None,
    address: str | None,
    actors: int | None,
    threads: int | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Carry out the job file JOB and print what it found.

    A run that was stopped goes on where it was, whatever stopped it; a finished one is only reported. Ctrl-C finishes and keeps
    what is in flight; a second one stops at once.

    At http://HEAD:8265 the job file and its catalog travel, and the driver runs on the head; it goes on when this command is
    killed. The run directory is a path there.
    """
    job_file = load_job(job, [*overrides, *spreading(actors, threads)])
    if is_head(address) and not dry_run:
        place = there(run_dir)
        head = Head(str(address))
        submission = head.submit(job_file, place, ["--json"] if as_json else [])
        follow_or_leave(head, submission, place, wait=not no_wait, as_json=as_json)
        return
    prepared = prepare(job_file)
    root = run_dir or default_run_dir(prepared.experiment.job.name)
    if dry_run:
        print_plan(prepared, root, as_json=as_json)
    else:
        drive(prepared, root, address, as_json=as_json)


def drive(prepared: Prepared, root: PurePath, address: str | None, *, as_json: bool) -> None:
    """Carry out a run with progress on stderr, and print its report on stdout."""
    err = console(stderr=True)
    was_finished = storage_at(root).exists(run_directory(root).finished)
    with contextlib.ExitStack() as stack:
        progress: Progress = Silent()
        if not as_json:
            progress = stack.enter_context(Bar(err)) if err.is_terminal else Lines(err)
        hint = "runner: finishing what is in flight; press Ctrl-C again to stop at once"
        interrupt = stack.enter_context(Interrupt(lambda: err.print(hint)))
        run = carry_out(
            prepared,
            root,
            make_executor(prepared, address),
            progress=progress,
            interrupt=interrupt,
            notice=lambda text: err.print(f"runner: {text}", soft_wrap=True),
        )
    if as_json:
        print_json(report_as_dict(run))
        return
    if was_finished:
        click.echo(f"{root}: this run is finished")
    print_report(console(), run)

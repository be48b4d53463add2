"""Drivers on a cluster's head, as `submit` and `resume` show them: followed to their end, or left alone."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from pathlib import PurePath

import click

from runner.cli.options import print_json
from runner.interrupt import Interrupt, Interrupted
from runner.location import location
from runner.remote import Head, Stopped, said_as_json, there
from runner.run import open_run
from schemas.errors import ClusterUnreachable, RunnerError

DOCUMENTED = frozenset({0, 1, 2, 3, 4, 5, 75, 130})
"""Exit codes with which a driver says what became of a run, as read from the store; any other one is a killed process's."""

STATES = {"finished": 0, "failed": 3, "differs": 4}
"""Exit codes of runs that are over, by the state that the store gives."""


def go_on(
    command: Sequence[str],
    address: str,
    run: PurePath,
    actors: int | None,
    threads: int | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Have a driver on the head go on with a run, by a command and its options."""
    place = there(run)
    head = Head(address)
    said = {"--actors": actors, "--threads": threads}
    options = [*command[1:], *(text for name, value in said.items() if value is not None for text in (name, str(value)))]
    submission = head.go_on(command[0], place, [*options, *(["--json"] if as_json else [])])
    follow_or_leave(head, submission, place, wait=wait, as_json=as_json)


def follow_or_leave(head: Head, submission: str, root: str, *, wait: bool, as_json: bool) -> None:
    """Name the submission; if asked to wait, pass on what the driver says and end with its exit code."""
    if not wait:
        if as_json:
            print_json({"submission": submission, "run": root, "address": head.server.address})
        else:
            click.echo(f"submission  {submission}")
            click.echo(f"run         {root}")
        return
    if not as_json:
        click.echo(f"runner: submitted as {submission}; the run is {root}", err=True)
    code = _followed(head, submission, root, as_json=as_json)
    if code:
        click.get_current_context().exit(code)


def _followed(head: Head, submission: str, root: str, *, as_json: bool) -> int:
    output = ""
    try:
        with Interrupt(lambda: _ask_to_finish(head, root)):
            for chunk in head.server.follow(submission):
                output += chunk if as_json else ""
                if not as_json:
                    sys.stdout.write(chunk)
                    sys.stdout.flush()
            code = head.conclude(submission, root)
    except Stopped as error:
        code = _by_the_store(head, root, error)
    except Interrupted:
        head.server.stop(submission)
        raise
    except ClusterUnreachable as error:
        code = _by_the_store(None, root, error)
    else:
        if code not in DOCUMENTED:
            code = _by_the_store(head, root, RunnerError(f"the driver ended with {code}; `runner resume {root}` goes on"))
    if as_json:
        with contextlib.suppress(ValueError):
            print_json(said_as_json(output))
    return code


def _ask_to_finish(head: Head, root: str) -> None:
    click.echo("runner: the driver is asked to finish what is in flight; press Ctrl-C again to stop it at once", err=True)

    def ask() -> None:
        with contextlib.suppress(RunnerError, ValueError, KeyError):  # whoever follows sees what becomes of it
            head.cancel(root, ["--no-wait"])

    # A thread, since it takes seconds and this is a signal handler.
    threading.Thread(target=ask, daemon=True).start()


def _by_the_store(head: Head | None, root: str, otherwise: RunnerError | Interrupted) -> int:
    """Exit code by what the store says, where the run is over; raises `otherwise` where it is not, or the store is out of reach.

    head: of the cluster, where that still answers.
    """
    state = _state(head, root)
    if state not in STATES:
        raise otherwise
    click.echo(f"runner: {otherwise}; the store says that the run is {state}", err=True)
    return STATES[state]


def _state(head: Head | None, root: str) -> str:
    """The run's state, read from here or, if it cannot be, on the cluster; "" where neither can."""
    with contextlib.suppress(RunnerError, OSError):
        return open_run(location(root)).verdict().state
    with contextlib.suppress(RunnerError, Stopped, ValueError, KeyError, TypeError):
        if head is not None:
            return str(said_as_json(head.ask(["status", root, "--json"], root)[1])["state"])
    return ""

"""`runner cancel`: have a driver finish, from another shell."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import click

from runner.claim import holder
from runner.cli.options import head_option, json_option, print_json, run_argument
from runner.remote import Head, said_as_json, there
from runner.run import Run, open_run
from schemas.errors import InvalidInput

KILL_SECONDS = 10.0
"""A driver that was told to stop at once and has not is killed after this long; the next one finds whatever it left."""

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.1


@click.command()
@run_argument
@click.option(
    "--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait before it is stopped at once."
)
@click.option("--no-wait", is_flag=True, help="Ask, and do not wait; asking a second time stops it at once.")
@head_option
@json_option
def cancel(*, run: PurePath, timeout: float, no_wait: bool, address: str | None, as_json: bool) -> None:
    """Ask the driver of RUN to finish and commit what is in flight, and to end; stop it when that takes too long.

    As Ctrl-C does in the driver's own shell: asking a second time, from wherever, stops it at once. What is committed stays, and
    `runner resume` goes on. On a cluster, or on another machine than the driver's, the cluster's address is needed.
    """
    if address is not None:
        options = ["--timeout", str(timeout), *(["--no-wait"] if no_wait else [])]
        code, output, stopped = Head(address).cancel(there(run), options)
        if stopped is not None:
            answer = {"run": str(run), "driver": None, "asked": False, "stopped": stopped}
            print_json(answer) if as_json else click.echo(f"{run}: {stopped} had not begun with the run, and is stopped")
        elif code:
            click.echo(output, nl=False)
        else:
            _tell(said_as_json(output), no_wait=no_wait, as_json=as_json)
        click.get_current_context().exit(code)
    opened = open_run(run)
    pid = _driver(opened)
    if pid is not None:
        _signal(pid)
        if not no_wait:
            _see_off(opened, pid, timeout)
    opened.store.refresh()
    done = sum(stage.done for stage in opened.verdict().stages)
    state = {"run": str(run), "driver": pid, "asked": pid is not None, "gone": _driver(opened) is None, "done": done}
    _tell(state, no_wait=no_wait, as_json=as_json)


def _tell(state: Mapping[str, Any], *, no_wait: bool, as_json: bool) -> None:
    run, pid, done = state["run"], state["driver"], state["done"]
    if as_json:
        print_json(state)
    elif pid is None:
        click.echo(f"{run}: no driver works on this run; {done} units are committed")
    elif no_wait:
        click.echo(f"{run}: process {pid} is asked to finish what is in flight")
    else:
        click.echo(f"{run}: process {pid} is gone; {done} units are committed")


def _driver(run: Run) -> int | None:
    """The process that works on the run, or None. Raises InvalidInput for one of another machine."""
    found = holder(run.store.storage, run.paths)
    if found is None:
        return None
    if not found.process.is_here():
        allowed = "a driver on this machine, or the --address of the cluster that it runs on"
        raise InvalidInput(str(run.paths.root), "driver", str(found), allowed)
    return found.process.pid


def _signal(pid: int, number: int = signal.SIGTERM) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it was done
    except PermissionError:
        raise InvalidInput(f"process {pid}", "", "another user's", "a driver of this user") from None


def _see_off(run: Run, pid: int, timeout: float) -> None:
    """Wait until the process does not have the run any more, with growing insistence.

    It is told to stop at once more than once: of two signals in a moment a process may see one.
    """
    if _is_gone(run, pid, timeout):
        return
    for _ in range(round(KILL_SECONDS / _AGAIN_SECONDS)):
        _signal(pid)
        if _is_gone(run, pid, _AGAIN_SECONDS):
            return
    _signal(pid, signal.SIGKILL)
    _is_gone(run, pid, KILL_SECONDS)


def _is_gone(run: Run, pid: int, patience: float) -> bool:
    """Whether the process gives the run up within so many seconds."""
    end = time.monotonic() + patience
    while _driver(run) == pid:
        if time.monotonic() >= end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True

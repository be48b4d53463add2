"""How a shell ends that follows a driver on a cluster: by what the driver said, or where that says nothing by the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import click
import pytest
from small_job import Command

from actors.job_server import JobEnd, JobServer
from runner.cli.remote_driver import follow_or_leave
from runner.interrupt import Interrupted
from runner.remote import Head


class OneEnd:
    """A Jobs API on which the driver ends in one way, and a helper says what is in `state`."""

    address = "http://head:8265"

    def __init__(self, end: JobEnd, state: str = "") -> None:
        self._end, self._state = end, state

    def submit(self, command: Sequence[str], *, name: str, folder: Path | None, metadata: object) -> str:
        assert command[0] == "status"
        return "helper"

    def follow(self, submission: str) -> Iterator[str]:
        yield f'{{"state": "{self._state}"}}\n' if submission == "helper" else "stage 4: 6/6 units done\n"

    def end(self, submission: str) -> JobEnd:
        return JobEnd("SUCCEEDED", 0, "") if submission == "helper" else self._end


def follow(root: Path | str, server: OneEnd) -> int:
    head = object.__new__(Head)
    head.server = cast(JobServer, server)
    with click.Context(click.Command("submit")):
        try:
            follow_or_leave(head, "driver", str(root), wait=True, as_json=False)
        except click.exceptions.Exit as ended:
            return int(ended.exit_code)
    return 0


STOPPED = JobEnd("STOPPED", None, "")


def test_a_driver_that_was_stopped_when_it_was_done_is_done(run: Command, submitted: Path) -> None:
    assert follow(submitted.absolute(), OneEnd(STOPPED)) == 0


def test_a_driver_that_was_stopped_before(run: Command, submitted: Path) -> None:
    (submitted / "finished.json").unlink()
    with pytest.raises(Interrupted, match=r"the driver was stopped; `runner resume .*` goes on"):
        follow(submitted.absolute(), OneEnd(STOPPED))


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 3), ("differs", 4)])
@pytest.mark.parametrize("end", [STOPPED, JobEnd("FAILED", -9, "")])
def test_a_store_that_cannot_be_read_from_here_is_asked_for_on_the_cluster(end: JobEnd, state: str, code: int) -> None:
    assert follow("/nowhere/run", OneEnd(end, state)) == code


def test_a_store_that_nobody_can_read() -> None:
    with pytest.raises(Interrupted, match="the driver was stopped"):
        follow("/nowhere/run", OneEnd(STOPPED, json.dumps(None)))

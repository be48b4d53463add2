"""What travels to a cluster, and what comes back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from actors.job_server import JobEnd, JobServer, Submission
from runner.preflight import prepare
from runner.remote import Head, Stopped, _pack, exit_code, is_head, said_as_json, there
from schemas.errors import ClusterUnreachable, InvalidInput
from schemas.job_file import load_job

JOBS = Path(__file__).parents[2] / "jobs"


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_job_travels_as_two_files_and_means_the_same(path: Path, tmp_path: Path) -> None:
    job_file = load_job(path, ["execution.threads=2"])
    _pack(job_file, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["catalog.tsv", "job.yaml"]
    arrived = load_job(tmp_path / "job.yaml")
    assert arrived.job.model_copy(update={"catalog": job_file.job.catalog}) == job_file.job
    assert arrived.catalog.read_bytes() == job_file.catalog.read_bytes()
    assert prepare(arrived).experiment.job.execution.threads == 2


def test_a_checkpoint_beside_the_job_file_does_not_travel(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="checkpoint: found checkpoints/mine, allowed: builtin, or an absolute path"):
        _pack(load_job(JOBS / "breadth.yaml", ["checkpoint=checkpoints/mine"]), tmp_path)
    _pack(load_job(JOBS / "breadth.yaml", ["checkpoint=/data/checkpoint"]), tmp_path)


def test_a_catalog_with_other_counts_is_refused_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="composition"):
        _pack(load_job(JOBS / "breadth.yaml", ["composition.languages={en: 49, zh: 1}"]), tmp_path)


def test_addresses_of_heads() -> None:
    assert is_head("http://head:8265")
    assert is_head("https://head")
    assert not any(is_head(address) for address in (None, "auto", "inline", "head:6379", "ray://head:10001"))


def test_a_place_must_be_the_same_everywhere() -> None:
    assert there(Path("/shared/runs/breadth")) == "/shared/runs/breadth"
    for place in (None, PurePosixPath("runs/breadth")):
        with pytest.raises(InvalidInput, match="allowed: an absolute path"):
            there(place)


def test_a_drivers_exit_code_is_what_its_job_ends_with() -> None:
    assert exit_code(JobEnd("SUCCEEDED", 0, ""), "/r") == 0
    assert exit_code(JobEnd("FAILED", 3, "Job entrypoint command failed"), "/r") == 3
    with pytest.raises(Stopped, match="the driver was stopped; `runner resume /r` goes on"):
        exit_code(JobEnd("STOPPED", None, ""), "/r")
    with pytest.raises(ClusterUnreachable, match="The actor died; `runner resume /r` goes on"):
        exit_code(JobEnd("FAILED", None, "The actor died"), "/r")


@pytest.mark.parametrize("output", ['{"a": [1]}', 'runner: hint\n{\n "a": [\n  1\n ]\n}\n', '{"b": 2}\nwarning {\n{"a": [1]}\n'])
def test_the_value_at_the_end_of_an_output(output: str) -> None:
    assert said_as_json(output) == {"a": [1]}


def test_an_output_without_a_value() -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        said_as_json("Segmentation fault\n")


@pytest.mark.parametrize(
    ("name", "part"), [("breadth", "breadth"), ("my runs/é#?%2", "my-runs-2"), ("…", "run"), ("x" * 300, "x" * 64), ("-a-", "a")]
)
def test_names_of_submissions_are_plain(name: str, part: str) -> None:
    head = object.__new__(Head)
    head.server = cast(JobServer, OneAnswer(code=0, output="", driver_ended=False))
    assert re.fullmatch(rf"runner-{part}-[0-9a-f]{{8}}", head._start(["resume"], "driver", "/r", name))


class OneAnswer:
    """A Jobs API on which one driver is known, and where every helper says the same."""

    def __init__(self, *, code: int, output: str, driver_ended: bool) -> None:
        self._end = JobEnd("SUCCEEDED" if code == 0 else "FAILED", code, "")
        self._output, self._driver_ended = output, driver_ended
        self.stopped: list[str] = []

    def submit(self, command: Sequence[str], *, name: str, folder: Path | None, metadata: Mapping[str, str]) -> str:
        return name

    def follow(self, submission: str) -> list[str]:
        return [self._output]

    def end(self, submission: str) -> JobEnd:
        return self._end

    def submissions(self) -> list[Submission]:
        return [Submission("runner-a-1", {"runner": "driver", "run": "/shared/a"}, 1, self._driver_ended, None)]

    def stop(self, submission: str) -> None:
        self.stopped.append(submission)


@pytest.mark.parametrize(
    ("code", "output", "driver_ended", "stopped"),
    [
        (0, '{"asked": true, "done": 3}', False, None),  # the driver itself sees to it
        (0, '{"asked": false, "done": 0}', False, "runner-a-1"),  # it has not taken the run yet
        (2, "/shared/a/run.json: found no such file\n", False, "runner-a-1"),  # nor made it
        (0, '{"asked": false, "done": 9}', True, None),
        (2, "/shared/a/run.json: found no such file\n", True, None),
    ],
)
def test_cancel_reaches_a_driver_that_has_not_begun(code: int, output: str, driver_ended: bool, stopped: str | None) -> None:
    head = object.__new__(Head)
    server = OneAnswer(code=code, output=output, driver_ended=driver_ended)
    head.server = cast(JobServer, server)
    assert head.cancel("/shared/a", ["--no-wait"]) == (0 if stopped else code, output, stopped)
    assert server.stopped == ([stopped] if stopped else [])

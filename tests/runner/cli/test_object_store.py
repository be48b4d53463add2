"""Every command on a run in an object store: as on a disk, also when its process is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_server import forget_clients, new_prefix, s3_server
from small_job import Command

from runner.location import ObjectPath
from runner.object_storage import ObjectStorage


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


def local_tables(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / "tables").rglob("*.parquet"))}


def tables(root: ObjectPath) -> dict[str, bytes]:
    storage, depth = ObjectStorage(), len(root.parts)
    found = [path for table in storage.entries(root / "tables") for path in storage.entries(table)]
    return {"/".join(path.parts[depth:]): storage.read(path) for path in found}


def test_every_command_works_on_a_run_in_an_object_store(run: Command, submitted: Path) -> None:
    root = new_prefix()
    done = run("submit", "job.yaml", "--run-dir", root, "--address", "inline")
    assert done.code == 0
    assert f"dataset  {root}/tables" in done.out
    assert tables(root) == local_tables(submitted)
    assert f"{root}: this run is finished" in run("submit", "job.yaml", "--run-dir", root, "--address", "inline").out
    assert run("resume", root, "--address", "inline").code == 0
    assert run("verify", root, "--json").json["dataset_digest"] == run("verify", submitted, "--json").json["dataset_digest"]
    assert run("status", root, "--json").json["state"] == "finished"
    assert run("show", root, "zh-1", "--json").json == run("show", submitted, "zh-1", "--json").json
    assert '"joined"' in run("logs", root, "--json").out
    assert run("retry", root, "--failed", "--address", "inline").code == 0
    assert run("cancel", root).code == 0
    assert {unit["reason"] for unit in run("plan", "job.yaml", "--run-dir", root, "--json").json["stages"]["horizon-2"]} == {
        "done"
    }
    assert run("audit", root, "--json").code == 0


def test_runs_below_a_prefix_are_listed(run: Command) -> None:
    folder = new_prefix()
    for name in ("a", "b"):
        assert run("submit", "job.yaml", "--run-dir", folder / name, "--address", "inline").code == 0
    ObjectStorage().replace(folder / "letter.txt", b"mine")
    assert [(one["run"], one["state"]) for one in run("ls", folder, "--json").json] == [("a", "finished"), ("b", "finished")]


def test_support_tables_go_into_the_run(run: Command, submitted: Path) -> None:
    root = new_prefix()
    assert run("submit", "job.yaml", "--run-dir", root, "--address", "inline").code == 0
    written = run("export", root, "--json").json["tables"]
    local = run("export", submitted, "--json").json["tables"]
    name = "breadth_summary"
    assert written[name] == f"{root}/support/{name}.tsv"
    assert ObjectStorage().read(root / "support" / f"{name}.tsv") == Path(local[name]).read_bytes()


def test_a_prefix_that_holds_something_else_is_refused(run: Command) -> None:
    root = new_prefix()
    ObjectStorage().replace(root / "letter.txt", b"mine")
    ended = run("submit", "job.yaml", "--run-dir", root, "--address", "inline")
    assert ended.code == 2
    assert f"{root}: found letter.txt and no run.json" in ended.err


def test_a_run_that_is_not_there_is_one_line(run: Command) -> None:
    root = new_prefix()
    ended = run("status", root)
    assert (ended.code, ended.err) == (
        2,
        f"runner: {root}/run.json: found no such file, allowed: the record of a run\n",
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/nowhere"}, "s3://"),
    ],
)
def test_a_store_that_refuses_or_is_not_there_is_one_line(
    run: Command, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    monkeypatch.setattr("runner.object_storage._ATTEMPTS", 1)
    forget_clients()
    ended = run("submit", "job.yaml", "--run-dir", new_prefix(), "--address", "inline")
    forget_clients()
    assert ended.code == 1
    assert ended.err.startswith(f"runner: {said}")
    assert ended.err.count("\n") == 1


@pytest.mark.slow
def test_a_process_that_is_killed_resumes_to_the_same_bytes(run: Command, submitted: Path) -> None:
    """SIGKILL at moments all over the run; a next process finds the dead one's claim by itself."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}

    def command(*arguments: object) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "runner", *map(str, arguments), "--address", "inline"]
        return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    moments, kills = random.Random(0), 0
    began = time.monotonic()
    assert command("submit", "job.yaml", "--run-dir", new_prefix()).wait() == 0
    longest = time.monotonic() - began
    for _ in range(3):
        root = new_prefix()
        for _ in range(3):
            process = command("submit", "job.yaml", "--run-dir", root)
            time.sleep(longest * moments.uniform(0.3, 1.0))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            if ObjectStorage().exists(root / "run.json"):
                assert run("verify", root).code == 0
        assert command("submit", "job.yaml", "--run-dir", root).wait() == 0
        assert tables(root) == local_tables(submitted)
        assert run("verify", root).code == 0
    assert kills >= 3

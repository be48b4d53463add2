"""Ray's own servers killed under an embedded run, and SIGTERM: one line, the right exit code, and a run that goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.events import read_events
from runner.local_storage import LocalStorage

JOBS = Path(__file__).parents[2] / "jobs"

JOB = "schema_version: 1\nname: lost\nprotocol: breadth\ncatalog: prompts.tsv\nhorizons: [8, 64]\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "prompts.tsv").write_bytes((JOBS / "prompts" / "depth_3.tsv").read_bytes())
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runner", *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)


def undisturbed(job: Path) -> dict[str, bytes]:
    ended = start("submit", job, "--address", "inline", "--run-dir", job.parent / "inline")
    ended.communicate()
    assert ended.returncode == 0
    return dataset(job.parent / "inline")


def dataset(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / "tables").rglob("*.parquet"))}


def child(parent: int, program: str) -> int:
    """A child process that runs a program."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                argument = (stat.parent / "cmdline").read_text().split("\0")[0]
                if Path(argument).name == program:
                    return int(stat.parent.name)
    raise AssertionError(f"no {program}")


def wait_for_event(root: Path, name: str) -> None:
    deadline = time.monotonic() + 120
    while not any(event["event"] == name for event in read_events(LocalStorage(), root / "events.log")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
def test_a_killed_server_of_ray_is_told_in_one_line_and_the_run_goes_on(job: Path, server: str) -> None:
    root = job.parent / "run"
    driver = start("submit", job, "--run-dir", root, "--actors", "1")
    wait_for_event(root, "joined")
    os.kill(child(driver.pid, server), signal.SIGKILL)
    out, err = driver.communicate(timeout=60)
    lines = [line for line in err.splitlines() if not line.startswith("stage ")]
    assert (driver.returncode, out, len(lines)) == (75, "", 1), err
    assert lines[0].startswith(f"runner: lost the Ray cluster: its {server} (process ")
    resumed = start("resume", root, "--address", "inline")
    resumed.communicate()
    assert resumed.returncode == 0
    assert dataset(root) == undisturbed(job)


def test_sigterm_keeps_what_is_in_flight(job: Path) -> None:
    root = job.parent / "run"
    driver = start("submit", job, "--run-dir", root, "--actors", "1")
    wait_for_event(root, "joined")
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "what was in flight is committed" in err
    assert "SIGTERM" not in err

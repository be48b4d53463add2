"""A driver at work, looked at and stopped from another shell."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_job import Command

import runner
from runner.events import read_events
from runner.local_storage import LocalStorage

ROOT = Path(runner.__file__).parents[1]


@pytest.fixture
def driver(run: Command, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A driver in the middle of runs/small: each of its units takes a while, the longer the more tokens it has (150)."""
    tokens = getattr(request, "param", 150)
    program = "from runner.cli import main; main()"
    command = ["submit", "job.yaml", "--address", "inline", "--set", f"horizons=[2, {tokens}]", "--set", "execution.batch=1"]
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not any(
            (event["event"], event.get("stage")) == ("leased", f"horizon-{tokens}")
            for event in read_events(LocalStorage(), Path("runs/small/events.log"))
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
        process.kill()


def test_cancel_keeps_what_is_in_flight(run: Command, driver: subprocess.Popen[str]) -> None:
    ended = run("cancel", "runs/small")
    assert ended.code == 0, ended
    assert ended.out.startswith(f"runs/small: process {driver.pid} is gone; ")
    _, err = driver.communicate()
    assert driver.returncode == 130
    assert "what was in flight is committed" in err
    assert run("verify", "runs/small").code == 0


@pytest.mark.parametrize("driver", [3000], indirect=True)
def test_a_second_cancel_and_a_time_out_stop_at_once(run: Command, driver: subprocess.Popen[str]) -> None:
    asked = run("cancel", "runs/small", "--no-wait", "--json")
    assert (asked.code, asked.json["driver"], asked.json["asked"]) == (0, driver.pid, True)
    ended = run("cancel", "runs/small", "--timeout", "0", "--json")
    assert (ended.code, ended.json["gone"]) == (0, True)
    _, err = driver.communicate()
    assert (driver.returncode, err.splitlines()[-1]) == (130, "runner: stopped at once")


def test_cancel_without_a_driver(run: Command, submitted: Path) -> None:
    ended = run("cancel", submitted)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("runs/small: no driver works on this run; ")


@pytest.mark.parametrize("driver", [3000], indirect=True)
def test_a_driver_that_does_not_obey_is_killed(
    run: Command, driver: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.cli.cancel.KILL_SECONDS", 1.0)
    driver.send_signal(19)  # SIGSTOP
    ended = run("cancel", "runs/small", "--timeout", "0.1")
    assert ended.code == 0, ended
    assert driver.wait(timeout=10) == -9


def test_logs_tell_what_happened(run: Command, submitted: Path) -> None:
    lines = run("logs", submitted).out.splitlines()
    assert {"planned", "joined", "done"} <= {line.split()[1] for line in lines}
    assert any(" stage horizon-2" in line for line in lines)
    every = [json.loads(line) for line in run("logs", submitted, "--json").out.splitlines()]
    assert [event["event"] for event in every] == [line.split()[1] for line in lines]


def test_logs_are_followed_to_the_end_of_the_driver(run: Command, driver: subprocess.Popen[str]) -> None:
    run("cancel", "runs/small", "--no-wait")
    ended = run("logs", "runs/small", "-f")
    assert ended.code == 0
    assert driver.wait(timeout=10) == 130
    assert len(ended.out.splitlines()) == len(run("logs", "runs/small").out.splitlines())


@pytest.mark.parametrize("command", ["status", "logs", "cancel"])
def test_what_is_no_head_to_ask(run: Command, submitted: Path, command: str) -> None:
    ended = run(command, submitted, "--address", "auto")
    assert (ended.code, ended.err) == (2, "runner: --address: found 'auto', allowed: http://HOST:PORT of the head's dashboard\n")


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:", "ftp://head:1", ""])
def test_what_is_no_address_is_refused_before_anything_is_written(run: Command, address: str) -> None:
    ended = run("submit", "job.yaml", "--address", address)
    assert ended.code == 2
    assert ended.err.endswith("allowed: http://HOST:PORT, auto, HOST:PORT or inline\n")
    assert not Path("runs").exists()


def test_a_run_on_a_cluster_needs_a_place_there(run: Command) -> None:
    for options in ([], ["--run-dir", "runs/small"]):
        ended = run("submit", "job.yaml", "--address", "http://127.0.0.1:9", *options)
        assert ended.code == 2
        assert ended.err.startswith("runner: --run-dir: found ")


def test_a_head_that_does_not_answer(run: Command) -> None:
    for command in (["submit", "job.yaml", "--run-dir"], ["resume"], ["status"], ["logs"], ["cancel"]):
        ended = run(*command, "/runs/small", "--address", "http://127.0.0.1:9")
        assert (ended.code, ended.err) == (75, "runner: nothing answers at 127.0.0.1:9: Connection refused\n")

"""Runs submitted to a cluster over HTTP, and asked for by shells that come and go."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_runs import JOBS, dataset, runner, undisturbed, wait_for, wait_until_over
from hosts import Hosts


@pytest.fixture(scope="module")
def cluster(hosts: Hosts) -> Hosts:
    hosts.start(0, 1, 2)
    return hosts


@pytest.fixture
def long_job(cluster: Hosts, job: Path) -> Iterator[Path]:
    """All fifty prompts, each a lease of three seconds: more than a minute on any machine."""
    (job.parent / "prompts.tsv").write_bytes((JOBS / "prompts" / "breadth_50.tsv").read_bytes())
    job.write_text(job.read_text() + "execution: {batch: 1}\n")
    cluster.pace(3.0)
    yield job
    cluster.pace(0.0)


def ask(cluster: Hosts, command: str, *arguments: str | Path) -> tuple[int, str]:
    return cluster.run(None, *runner(command, *arguments, "--address", cluster.url))


def test_a_job_is_carried_out_on_the_cluster(cluster: Hosts, job: Path) -> None:
    with (job.parent / "large.bin").open("wb") as large:
        large.truncate(200 << 20)  # beside the job file: more than a job may bring along, if it came along
    root = job.parent / "run"
    code, output = ask(cluster, "submit", job, "--run-dir", root)
    assert code == 0, output
    assert f"the run is {root}" in output
    assert "Separation by horizon" in output
    assert "stage horizon-2: 3/3 units done" in output
    assert dataset(root) == undisturbed(cluster, job, job.parent / "inline")
    assert {event["host"] for event in wait_for(root, "joined")} == {"host0", "host1", "host2"}
    code, output = ask(cluster, "submit", job, "--run-dir", root, "--json")
    assert (code, json.loads(output)["state"]) == (0, "finished")


def test_rules_travel_with_their_job(cluster: Hosts, tmp_path: Path) -> None:
    options = ("--set", "block=180", "--set", "horizon=4", "--set", "replay_horizon=6")
    root = tmp_path / "run"
    code, output = ask(cluster, "submit", JOBS / "event_direction.yaml", "--run-dir", root, *options)
    assert code == 0, output
    assert dataset(root) == undisturbed(cluster, JOBS / "event_direction.yaml", tmp_path / "inline", *options)


def test_a_run_survives_its_submitter_and_is_cancelled_and_resumed_from_elsewhere(cluster: Hosts, long_job: Path) -> None:
    root = (job := long_job).parent / "run"
    submitter = cluster.popen(None, *runner("submit", job, "--run-dir", root, "--address", cluster.url))
    wait_for(root, "done")
    os.killpg(submitter.pid, signal.SIGKILL)
    code, output = ask(cluster, "status", root, "--json")
    assert code == 0, output
    assert json.loads(output)["driver"] is not None
    code, output = ask(cluster, "submit", job, "--run-dir", root)
    assert (code, "another driver works on this run" in output) == (5, True), output
    wait_for(root, "planned", 3)
    cluster.pace(10.0)
    code, output = ask(cluster, "cancel", root)
    assert (code, " is gone; " in output) == (0, True), output
    code, output = ask(cluster, "logs", root, "-f")
    assert (code, "runner: interrupted in stage horizon-8; what was in flight is committed" in output) == (0, True), output
    cluster.pace(0.0)
    code, output = ask(cluster, "resume", root, "--no-wait", "--actors", "2", "--json")
    assert (code, json.loads(output)["run"]) == (0, str(root))
    assert wait_until_over(cluster, root)["state"] == "finished"
    assert dataset(root) == undisturbed(cluster, job, job.parent / "inline")


def test_a_second_cancel_stops_at_once(cluster: Hosts, long_job: Path) -> None:
    root = long_job.parent / "run"
    cluster.pace(120.0)
    code, output = ask(cluster, "submit", long_job, "--run-dir", root, "--no-wait")
    assert code == 0, output
    wait_for(root, "joined")
    for _ in range(2):
        code, output = ask(cluster, "cancel", root, "--no-wait")
        assert code == 0, output
    code, output = ask(cluster, "logs", root, "-f")
    assert (code, "runner: stopped at once" in output) == (0, True), output


def test_ctrl_c_in_the_submitting_shell_reaches_the_driver(cluster: Hosts, long_job: Path) -> None:
    root = (job := long_job).parent / "run"
    submitter = cluster.popen(None, *runner("submit", job, "--run-dir", root, "--address", cluster.url))
    wait_for(root, "done")
    submitter.send_signal(signal.SIGINT)
    output, _ = submitter.communicate(timeout=120)
    assert submitter.returncode == 130
    assert b"the driver is asked to finish" in output
    assert b"what was in flight is committed" in output


def test_a_killed_driver_is_told(cluster: Hosts, long_job: Path) -> None:
    root = (job := long_job).parent / "run"
    submitter = cluster.popen(None, *runner("submit", job, "--run-dir", root, "--address", cluster.url))
    wait_for(root, "done")
    for pid in cluster.pids(0):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"runner" in command and b"submit" in command:
            os.kill(pid, signal.SIGKILL)
    output, _ = submitter.communicate(timeout=120)
    assert submitter.returncode == 1, output
    assert f"the driver ended with -9; `runner resume {root}` goes on".encode() in output


def test_a_node_of_the_cluster_joins_by_itself(cluster: Hosts, job: Path) -> None:
    root = job.parent / "run"
    code, output = cluster.run(1, *runner("submit", job, "--run-dir", root, "--address", f"{cluster.address(0)}:6379"))
    assert code == 0, output
    environment = {"RAY_ADDRESS": f"{cluster.address(0)}:6379"}
    code, again = cluster.run(2, *runner("resume", root, "--address", "auto"), environment=environment)
    assert code == 0, again
    assert dataset(root) == undisturbed(cluster, job, job.parent / "inline")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"RAY_AUTH_TOKEN": "0" * 64}, "wants its token, not the one found"),
        ({"RAY_AUTH_TOKEN_PATH": "/nonexistent"}, "wants its token, none was found"),
    ],
)
def test_a_wrong_token_is_one_line(cluster: Hosts, job: Path, variables: dict[str, str], said: str) -> None:
    command = runner("submit", job, "--run-dir", job.parent / "run", "--address", cluster.url)
    code, output = cluster.run(None, *command, environment=variables)
    assert (code, output.count("\n"), said in output) == (75, 1, True), output


def test_a_wrong_token_of_a_node_is_one_line(cluster: Hosts, job: Path) -> None:
    command = runner("submit", job, "--run-dir", job.parent / "run", "--address", f"{cluster.address(0)}:6379")
    code, output = cluster.run(1, *command, environment={"RAY_AUTH_TOKEN": "0" * 64})
    lines = [line for line in output.splitlines() if not line.startswith("stage ")]
    assert (code, len(lines)) == (75, 1), output
    assert f"{cluster.address(0)}:6379 wants its token, not the one found" in lines[0]


def test_the_token_is_nowhere_to_be_read(cluster: Hosts, job: Path) -> None:
    """Neither in a log, nor in a command line, nor in the environment of a worker, nor in a file that others may read."""
    root = job.parent / "run"
    submitter = cluster.popen(None, *runner("submit", job, "--run-dir", root, "--address", cluster.url))
    wait_for(root, "joined")
    token = cluster.token.read_bytes()
    pids = [pid for host in range(3) for pid in cluster.pids(host)]
    for pid in pids:
        for name in ("cmdline", "environ"):
            try:
                assert token not in Path(f"/proc/{pid}/{name}").read_bytes(), (pid, name)
            except OSError:
                continue  # it has ended
    assert len(pids) > 20
    assert submitter.wait(timeout=120) == 0
    files = [*cluster.logs(), *(path for path in root.rglob("*") if path.is_file())]
    assert len(files) > 20
    assert [path for path in files if token in path.read_bytes()] == []
    assert stat.S_IMODE(cluster.token.stat().st_mode) == 0o600


def test_an_unreachable_head_is_one_line(cluster: Hosts, job: Path) -> None:
    for address in (f"http://{cluster.address(7)}:8265", f"http://{cluster.address(0)}:9", f"http://{cluster.address(0)}:6379"):
        began = time.monotonic()
        code, output = cluster.run(None, *runner("submit", job, "--run-dir", job.parent / "run", "--address", address))
        assert (code, output.count("\n")) == (75, 1), output
        assert time.monotonic() - began < 60

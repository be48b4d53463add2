"""What is left of an embedded cluster, its driver ended or killed, interrupted or not."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from actors.cluster import Cluster, _descendants, _locked_directory, _start_time, _sweep, available_cpus

DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, lambda *_: None)  # as the driver does: it decides what an interrupt means
from actors.executor import Done, WorkerSpec
from actors.pool import PoolSettings, RayPool
from lease_work import execute, lease
pool = RayPool(WorkerSpec("builtin", "official", threads=1), execute, PoolSettings(actors=2))
pool.start()
pool.wait(0)
pool.submit(lease(1, "sleep 2"))
print("working", flush=True)
while not any(isinstance(event, Done) for event in pool.wait(1)):
    pass
print("done", flush=True)
pool.submit(lease(2, "sleep 100"))
while True:
    pool.wait(1)
"""

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A driver with a lease in flight, in a process group of its own, whose clusters lie in a directory of their own."""
    base = Path("/tmp") / f"rt{os.getpid()}"  # socket names are too long in pytest's directories
    base.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(base))
    paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        yield process
        process.kill()
    base.rmdir()


def alive(processes: dict[int, int]) -> set[str]:
    """Names of those of the processes (pid -> start time) that live."""
    return {
        Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0] for pid, start in processes.items() if _start_time(pid) == start
    }


def wait_for(condition: object, patience: float = 20.0) -> bool:
    end = time.monotonic() + patience
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_killed_driver_takes_its_cluster_along(driver: subprocess.Popen[str]) -> None:
    processes = _descendants(driver.pid)
    assert len(processes) >= 6
    driver.kill()
    driver.wait()
    assert wait_for(lambda: alive(processes) <= AGENTS), alive(processes)
    directories = list(Path(os.environ["RAY_TMPDIR"]).iterdir())
    assert len(directories) == 1
    cluster = Cluster.embed(1)  # the next start finds what is left, directory and agents, and removes it
    assert not directories[0].exists()
    assert wait_for(lambda: not alive(processes)), alive(processes)
    cluster.close()
    assert list(Path(os.environ["RAY_TMPDIR"]).iterdir()) == []


@pytest.mark.slow
def test_interrupt_of_the_process_group_leaves_the_work_to_the_driver(driver: subprocess.Popen[str]) -> None:
    processes = _descendants(driver.pid)
    workers = {pid: start for pid, start in processes.items() if any("ray::WorkerActor" in name for name in alive({pid: start}))}
    assert len(workers) == 2
    os.killpg(driver.pid, signal.SIGINT)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "done\n"
    assert all(_start_time(pid) == start for pid, start in workers.items())
    driver.kill()
    driver.wait()
    Cluster.embed(1).close()


@pytest.mark.slow
def test_embedded_cluster_is_private_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # of some cluster; no worker is to have it in its environment
    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    cluster = Cluster.embed(2)
    assert "RAY_AUTH_TOKEN" not in os.environ
    directory = Path(os.environ["RAY_TMPDIR"])
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert (stat.S_IMODE(directory.stat().st_mode), stat.S_IMODE(token.stat().st_mode)) == (0o700, 0o600)
    assert cluster.cpus() == 2
    assert len(cluster.alive_nodes()) == 1
    cluster.close()
    cluster.close()
    assert not directory.exists()
    assert {name: value for name, value in os.environ.items() if name.startswith("RAY_")} == before


def test_a_directory_is_locked_before_a_sweep_can_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Path]] = []
    flock = fcntl.flock

    def look_and_lock(file: IO[str], how: int) -> None:
        found.append(list(tmp_path.glob("rn-*")))
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", look_and_lock)
    directory, lock = _locked_directory(tmp_path)
    assert found == [[]]
    assert list(tmp_path.iterdir()) == list(tmp_path.glob("rn-*/")) == [directory]
    with lock:
        _sweep(tmp_path)
        assert (directory / "driver.lock").exists()
    _sweep(tmp_path)
    assert not directory.exists()


HOLDER = """
import sys
files = [open(name, "a") for name in sys.argv[1:]]
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("names", "ended"), [(["driver.lock"], False), (["driver.lock", "log"], True), (["log"], True)])
def test_a_sweep_ends_what_writes_and_not_what_only_waits_for_the_lock(tmp_path: Path, names: list[str], ended: bool) -> None:
    directory, lock = _locked_directory(tmp_path)
    lock.close()
    command = [sys.executable, "-c", HOLDER, *(str(directory / name) for name in names)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        _sweep(tmp_path)
        process.communicate()  # ends its input, at which it ends by itself
        assert process.returncode == (-signal.SIGKILL if ended else 0)
    assert not directory.exists()


def test_cpus_are_those_this_process_may_use() -> None:
    assert 1 <= available_cpus() <= len(os.sched_getaffinity(0))

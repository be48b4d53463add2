"""Drivers and actors killed at random moments, drivers interrupted by Ctrl-C: the dataset is that of an undisturbed run.

The short form works in one process on three prompts, the long one (marked slow) with Ray on the main job.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from runner.events import read_events
from runner.local_storage import LocalStorage

JOBS = Path(__file__).parents[2] / "jobs"

DRAWS = 12
"""Moments drawn, each earlier than the one before on the whole, before a test gives up killing something in time."""


@dataclass(frozen=True)
class Undisturbed:
    """A job, how to submit it, what an undisturbed run of it gives, and how long that takes."""

    job: Path
    options: tuple[str, ...]
    dataset: dict[str, bytes]
    seconds: float


def start(job: Path, root: Path, *options: str) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, as a shell would start it."""
    command = [sys.executable, "-m", "runner", "submit", str(job), "--run-dir", str(root), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)


def end(driver: subprocess.Popen[bytes]) -> int:
    return driver.wait(timeout=600)


def dataset(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / "tables").rglob("*.parquet"))}


def verified(root: Path) -> int:
    return subprocess.run(
        [sys.executable, "-m", "runner", "verify", str(root)], stdout=subprocess.DEVNULL, check=False
    ).returncode


def run_undisturbed(job: Path, root: Path, *options: str) -> Undisturbed:
    began = time.monotonic()
    assert end(start(job, root, *options)) == 0
    return Undisturbed(job, options, dataset(root), time.monotonic() - began)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("small")
    (folder / "prompts.tsv").write_bytes((JOBS / "prompts" / "depth_3.tsv").read_bytes())
    job = "schema_version: 1\nname: small\nprotocol: breadth\ncatalog: prompts.tsv\nhorizons: [4, 8, 16]\n"
    (folder / "job.yaml").write_text(job)
    return run_undisturbed(folder / "job.yaml", folder / "run", "--address", "inline")


@pytest.fixture(scope="module")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(JOBS / "breadth.yaml", tmp_path_factory.mktemp("main") / "run")


def resumes(root: Path, undisturbed: Undisturbed, *options: str) -> None:
    if (root / "run.json").exists():
        assert verified(root) == 0
    assert end(start(undisturbed.job, root, *undisturbed.options, *options)) == 0
    assert dataset(root) == undisturbed.dataset
    assert verified(root) == 0


def kill_driver(undisturbed: Undisturbed, root: Path, after: float, *options: str) -> bool:
    """Start a driver on `root` and kill it after so many seconds; False if it had ended by then, all done."""
    driver = start(undisturbed.job, root, *undisturbed.options, *options)
    time.sleep(after)
    driver.kill()
    code = end(driver)
    assert code in (-signal.SIGKILL, 0)
    return code != 0


def kill_actor(undisturbed: Undisturbed, root: Path, after: float, *options: str) -> bool:
    """Start a driver on `root` and kill one of its actors so many seconds after the first has joined; the driver ends by itself.

    False if none was missed: the driver had no more work for it.
    """
    driver = start(undisturbed.job, root, *undisturbed.options, *options)
    wait_for_event(root, "joined")
    time.sleep(after)
    for pid in list(workers(driver.pid))[:1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert end(driver) == 0
    return any(event["event"] == "left" for event in read_events(LocalStorage(), root / "events.log"))


def disturbed(kill: Callable[[Path, float], bool], folder: Path, moments: random.Random, longest: float) -> Path:
    """A run in which something was killed. A moment that comes too late is drawn again, earlier, for a run of its own."""
    for number in range(DRAWS):
        root = folder / f"run-{number}"
        if kill(root, moments.random() * longest / (1 + number)):
            return root
    raise AssertionError(f"every one of {DRAWS} runs had ended before anything of it was killed")


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_driver_resumes_to_the_same_bytes(small: Undisturbed, tmp_path: Path, seed: int) -> None:
    root = disturbed(partial(kill_driver, small), tmp_path, random.Random(seed), small.seconds)
    resumes(root, small)


def test_a_run_killed_over_and_over_ends_with_the_same_bytes(small: Undisturbed, tmp_path: Path) -> None:
    moments, root, kills = random.Random(0), tmp_path / "run-0", 0
    for number in range(1, DRAWS):
        if kill_driver(small, root, small.seconds * moments.uniform(0.4, 1) / number**0.5):
            kills += 1
        else:  # it was done before its next kill: begin anew
            root, kills = tmp_path / f"run-{number}", 0
        if kills == 3:
            break
    assert kills == 3
    resumes(root, small)


def test_ctrl_c_keeps_what_is_in_flight_and_ends_with_130(small: Undisturbed, tmp_path: Path) -> None:
    driver = start(small.job, tmp_path / "run", *small.options)
    wait_for_event(tmp_path / "run", "planned")
    os.killpg(driver.pid, signal.SIGINT)
    assert end(driver) == 130
    resumes(tmp_path / "run", small)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 2.0])
def test_ctrl_c_while_ray_starts_ends_soon_and_leaves_nothing(small: Undisturbed, tmp_path: Path, after: float) -> None:
    driver = start(small.job, tmp_path / "run", "--actors", "2")
    wait_for_event(tmp_path / "run", "planned")
    time.sleep(after)
    began = set(below(driver.pid))
    os.killpg(driver.pid, signal.SIGINT)
    assert end(driver) == 130
    assert not [pid for pid in began if is_running(pid)]
    resumes(tmp_path / "run", small)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_kill_of_driver_or_actor_on_the_main_job(main_job: Undisturbed, tmp_path: Path, seed: int) -> None:
    kill = kill_driver if seed % 4 < 2 else kill_actor

    def kill_once(root: Path, after: float) -> bool:
        return kill(main_job, root, after, "--actors", str(1 + seed % 2))

    root = disturbed(kill_once, tmp_path, random.Random(seed), main_job.seconds)
    # Resumed by the other number of actors.
    resumes(root, main_job, "--actors", str(2 - seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_with_ray_reaches_the_driver_only(
    main_job: Undisturbed, tmp_path: Path, number: signal.Signals, presses: int
) -> None:
    driver = start(main_job.job, tmp_path / "run", "--actors", "2")
    wait_for_event(tmp_path / "run", "done")
    # Ctrl-C reaches every process of the terminal's group, `kill` the driver alone.
    send = os.killpg if number is signal.SIGINT else os.kill
    for _ in range(presses):
        send(driver.pid, number)
        time.sleep(0.05)
    assert end(driver) == 130
    assert not list(workers(driver.pid))
    resumes(tmp_path / "run", main_job)


def wait_for_event(root: Path, name: str) -> None:
    deadline = time.monotonic() + 120
    while not any(event["event"] == name for event in read_events(LocalStorage(), root / "events.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def workers(driver: int) -> Iterator[int]:
    """Actor processes below a driver."""
    for pid in below(driver):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::WorkerActor"):
                yield pid


def is_running(pid: int) -> bool:
    """Whether a process is there and has not only to be taken note of by its parent."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def below(driver: int) -> Iterator[int]:
    """Processes below a driver."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for pid in parents:
        above = pid
        while above in parents and above != driver:
            above = parents[above]
        if above == driver and pid != driver:
            yield pid

"""One driver a run, and no unlocking after a crash."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.claim import Claim, holder
from schemas.errors import RunBusy

HOLD = """
import sys, time
from pathlib import Path
from runner.claim import Claim

with Claim(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other_driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "claim")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_driver_is_told_who_the_first_is(tmp_path: Path, other_driver: subprocess.Popen[str]) -> None:
    with pytest.raises(RunBusy, match=f"process {other_driver.pid} on host {os.uname().nodename}"), Claim(tmp_path / "claim"):
        pass


@pytest.mark.parametrize("other", [None, b"", b"someone else's"])
def test_without_its_claim_file_a_driver_still_has_the_run(
    tmp_path: Path, other_driver: subprocess.Popen[str], other: bytes | None
) -> None:
    (tmp_path / "claim").unlink()
    if other is not None:
        (tmp_path / "claim").write_bytes(other)
    with (
        pytest.raises(RunBusy, match="another driver works on this run: its claim file does not say who"),
        Claim(tmp_path / "claim"),
    ):
        pass
    assert holder(tmp_path / "claim") is not None


def test_a_killed_driver_needs_no_unlock(tmp_path: Path, other_driver: subprocess.Popen[str]) -> None:
    other_driver.send_signal(signal.SIGKILL)
    other_driver.wait()
    with Claim(tmp_path / "claim"):
        pass


def test_whoever_asks_learns_who_drives(tmp_path: Path, other_driver: subprocess.Popen[str]) -> None:
    found = holder(tmp_path / "claim")
    assert found is not None
    assert found.pid == other_driver.pid


def test_nobody_drives_a_run_that_was_given_up(tmp_path: Path) -> None:
    assert holder(tmp_path / "claim") is None
    with Claim(tmp_path / "claim"):
        pass
    assert holder(tmp_path / "claim") is None


def test_two_who_ask_do_not_take_each_other_for_a_driver(tmp_path: Path) -> None:
    with Claim(tmp_path / "claim"):
        pass
    asking = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert holder(tmp_path / "claim") is None
    os.close(asking)


def test_asking_does_not_keep_a_driver_out(tmp_path: Path) -> None:
    with Claim(tmp_path / "claim"):
        pass
    for _ in range(50):
        holder(tmp_path / "claim")
        with Claim(tmp_path / "claim"):
            pass


def test_a_worker_that_outlives_its_driver_does_not_hold_the_claim(tmp_path: Path) -> None:
    with Claim(tmp_path / "claim"):
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with Claim(tmp_path / "claim"):
            pass
    finally:
        worker.kill()
        worker.wait()

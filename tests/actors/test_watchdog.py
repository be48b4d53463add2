"""A cluster that is gone is noticed, and a process that hangs because of it is ended in one line."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actors import watchdog as module
from actors.watchdog import Watchdog
from schemas.errors import ClusterUnreachable

ROOT = Path(__file__).parents[2]


def lost(watchdog: Watchdog, patience: float = 10.0) -> str:
    end = time.monotonic() + patience
    while not watchdog.lost:
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(ClusterUnreachable, match="lost the Ray cluster"):
        watchdog.require()
    watchdog.stop()
    return watchdog.lost


def test_nothing_is_lost_while_all_is_well() -> None:
    with subprocess.Popen(["sleep", "100"]) as process, socket.create_server(("127.0.0.1", 0)) as server:
        watchdog = Watchdog({process.pid: "raylet"}, head=f"127.0.0.1:{server.getsockname()[1]}")
        time.sleep(0.2)
        watchdog.require()
        watchdog.stop()
        watchdog.stop()
        process.kill()


def test_a_process_that_ends_is_named() -> None:
    with subprocess.Popen(["sleep", "100"]) as one, subprocess.Popen(["sleep", "100"]) as other:
        watchdog = Watchdog({one.pid: "raylet", other.pid: "gcs_server"}, head=None)
        other.kill()
        assert lost(watchdog) == f"lost the Ray cluster: its gcs_server (process {other.pid}) is gone"
        one.kill()


def test_a_process_that_is_gone_already_is_named() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert lost(Watchdog({process.pid: "raylet"}, head=None)) == "lost the Ray cluster: its raylet is gone"


def test_a_head_may_be_away_for_a_while_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(module, "HEAD_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        watchdog = Watchdog({}, head=f"127.0.0.1:{port}")
        time.sleep(0.1)
    time.sleep(0.4)
    with socket.create_server(("127.0.0.1", port)):
        time.sleep(1.2)
        watchdog.require()
    assert lost(watchdog) == f"lost the Ray cluster: its head at 127.0.0.1:{port} has not answered for 1 s"


HANGING = """
import subprocess, time
from actors import watchdog
watchdog.GRACE_SECONDS = 0.1
child = subprocess.Popen(["true"])
child.wait()
watchdog.Watchdog({child.pid: "raylet"}, head=None)
time.sleep(100)
"""


def test_a_process_that_hangs_is_ended_in_one_line() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (75, b"runner: lost the Ray cluster: its raylet is gone\n")

"""Hosts of a test that was killed are taken away by the next one, with everything of theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hosts import LINKS, Hosts, _namespaces, _pids, sweep, unavailable

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(reason := unavailable()), reason=reason)]

MAKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from hosts import Hosts
hosts = Hosts(count=1)
print("made", flush=True)
time.sleep(600)
"""


def left_of(pid: int) -> list[str]:
    """Namespaces, links and directories of a maker."""
    places = [*LINKS.glob(f"rh{pid}*"), *Path("/tmp").glob(f"rh{pid}-*")]
    return [name for name in _namespaces() if name.startswith(f"rh{pid}h")] + [path.name for path in places]


def test_a_killed_makers_hosts_are_swept() -> None:
    maker = subprocess.Popen([sys.executable, "-c", MAKER, str(Path(__file__).parent)], stdout=subprocess.PIPE)
    assert maker.stdout is not None
    assert maker.stdout.readline() == b"made\n"
    sleeper = subprocess.Popen(["ip", "netns", "exec", f"rh{maker.pid}h0", "sleep", "600"])
    sweep()
    assert len(left_of(maker.pid)) == 4  # of one that lives nothing is touched
    while sleeper.pid not in _pids(f"rh{maker.pid}h0"):
        assert sleeper.poll() is None
    maker.kill()
    maker.wait()
    sweep()
    assert left_of(maker.pid) == []
    assert sleeper.wait(timeout=10) == -9


def test_a_maker_with_the_number_of_a_killed_one_begins_anew() -> None:
    left = Hosts(count=1)
    made = Hosts(count=1)
    try:
        assert not left.token.exists()
        assert made.token.exists()
    finally:
        made.close()

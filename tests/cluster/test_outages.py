"""A breadth run and a sweep of all 720 orders: a link is cut, a host dies, the head dies; the bytes are those of one process.

`pytest -rP` shows how long it took to notice and to go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import JOBS, dataset, events, runner, undisturbed
from hosts import Hosts

CUT_SECONDS = 20.0

PACE_SECONDS = 3.0
"""For a lease, of which there are 120 or more: a run of a minute and a half, so that every outage is in the middle of it."""

RUNS = {
    "breadth": ("breadth.yaml", "horizons=[8,16,120]", "execution.batch=1"),
    "sweep": ("sweep.yaml", "schemes=[A]", "horizon=64", "block=6", "execution.batch=1"),
}


class Watch:
    """What a run's events say of an outage that begins now."""

    def __init__(self, root: Path, what: str) -> None:
        self._root, self._what, self._began = root, what, time.time()

    def until(self, name: str, matches: Callable[[dict[str, Any]], bool] = lambda event: True, patience: float = 180.0) -> None:
        """Wait for an event after the outage, and say when it came."""
        over = False
        while time.time() - self._began < patience and not over:
            over = (self._root / "finished.json").exists()
            for event in events(self._root, name):
                seconds = datetime.fromisoformat(event["time"]).timestamp() - self._began
                if seconds > 0 and matches(event):
                    print(f"{self._what}: {name} after {seconds:.1f} s")
                    return
            time.sleep(0.1)
        raise AssertionError(
            f"{self._what}: no event {name} " + ("before the run was finished" if over else f"in {patience:g} s")
        )


@pytest.mark.parametrize("name", RUNS)
def test_outages_change_no_byte(hosts: Hosts, tmp_path: Path, name: str) -> None:
    file, *settings = RUNS[name]
    job, root = JOBS / file, tmp_path / "run"
    options = [text for setting in settings for text in ("--set", setting)]
    expected = undisturbed(hosts, job, tmp_path / "inline", *options)
    hosts.kill(0, 1, 2)
    hosts.pace(PACE_SECONDS)
    hosts.start(0, 1, 2)
    submitter = hosts.popen(None, *runner("submit", job, "--run-dir", root, "--address", hosts.url, *options))
    began = Watch(root, "start on three hosts")
    began.until("done")

    watch = Watch(root, f"link of host 1 cut for {CUT_SECONDS:g} s")
    hosts.cut(1)
    watch.until("done", lambda event: event["host"] != "host1")
    time.sleep(CUT_SECONDS)
    healed = Watch(root, "link healed")
    hosts.heal(1)
    healed.until("done", lambda event: event["host"] == "host1")
    assert not [event for event in events(root, "left") if event.get("host") == "host1"]

    watch = Watch(root, "host 2 killed")
    hosts.kill(2)
    watch.until("left")
    watch.until("done", lambda event: event["host"] != "host2")
    back = Watch(root, "host 2 started again")
    hosts.start(2)
    back.until("joined", lambda event: event["host"] == "host2")

    done = len(events(root, "done"))
    lost = time.monotonic()
    hosts.kill(0)
    output, _ = submitter.communicate(timeout=180)
    print(f"head killed: the submitter ended with {submitter.returncode} after {time.monotonic() - lost:.1f} s")
    assert submitter.returncode == 75, output.decode()
    assert b"the run is " in output
    hosts.kill(1, 2)
    code, said = hosts.run(None, *runner("verify", root))
    assert code == 0, said
    hosts.pace(0.0)
    anew = Watch(root, "new cluster and resume")
    hosts.start(0, 1, 2)
    again = Watch(root, "resume")
    code, said = hosts.run(None, *runner("resume", root, "--address", hosts.url, "--json"), timeout=600)
    assert code == 0, said
    anew.until("done")
    again.until("done")
    print(f"units done before the head was killed: {done}, afterwards: {len(events(root, 'done')) - done}")
    assert json.loads(said)["state"] == "finished"
    assert dataset(root) == expected
    code, said = hosts.run(None, *runner("verify", root))
    assert code == 0, said

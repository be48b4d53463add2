"""Commands, datasets and events of runs on the hosts of a test."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from hosts import Hosts

from runner.events import read_events
from runner.local_storage import LocalStorage

JOBS = Path(__file__).parents[2] / "jobs"


def runner(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "runner", *(str(argument) for argument in arguments)]


def three_stages(folder: Path) -> Path:
    """A breadth job of the three depth prompts, with three stages, in a folder of its own."""
    (folder / "prompts.tsv").write_bytes((JOBS / "prompts" / "depth_3.tsv").read_bytes())
    (folder / "job.yaml").write_text(
        "schema_version: 1\nname: three\nprotocol: breadth\ncatalog: prompts.tsv\nhorizons: [2, 4, 8]\n"
    )
    return folder / "job.yaml"


def dataset(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / "tables").rglob("*.parquet"))}


def undisturbed(hosts: Hosts, job: Path, root: Path, *options: str) -> dict[str, bytes]:
    """The dataset of a run in a single process."""
    code, output = hosts.run(None, *runner("submit", job, "--run-dir", root, "--address", "inline", *options), timeout=600)
    assert code == 0, output
    return dataset(root)


def events(root: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in read_events(LocalStorage(), root / "events.log") if event["event"] == name]


def wait_for(root: Path, name: str, count: int = 1, patience: float = 120.0) -> list[dict[str, Any]]:
    """Events of a name, once there are so many of them."""
    end = time.monotonic() + patience
    while len(found := events(root, name)) < count:
        assert time.monotonic() < end, f"{len(found)} events {name} in {root}"
        time.sleep(0.1)
    return found


def wait_until_over(hosts: Hosts, root: Path) -> dict[str, Any]:
    """The status of the run once no driver works on it any more."""
    for _ in range(600):
        code, output = hosts.run(None, *runner("status", root, "--address", hosts.url, "--json"))
        assert code == 0, output
        status: dict[str, Any] = json.loads(output)
        if status["driver"] is None:
            return status
        time.sleep(1)
    raise AssertionError(f"the run at {root} does not end")

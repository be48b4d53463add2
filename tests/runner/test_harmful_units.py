"""Units that crash their worker, hang and eat memory, on Ray: set aside while all others are done, and done in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import troubled

from runner.events import read_events
from runner.local_storage import LocalStorage

pytestmark = pytest.mark.slow

JOB = """\
schema_version: 1
name: harmful
protocol: breadth
catalog: prompts.tsv
horizons: [2, 4]
execution: {actors: 2, batch: 4, deadline_s: 8, memory_mib: 512}
"""

PROMPTS = ("crash", "hang", "eat", "well-1", "well-2", "well-3", "well-4")
HARM = {prompt: prompt for prompt in PROMPTS[:3]}


class Folder:
    """A job, and a file that says which of its units do harm."""

    def __init__(self, path: Path) -> None:
        self.path, self.trouble = path, path / "trouble.json"
        lines = [f"{prompt}\ten\tordinary\twhy the sheep number {place}\n" for place, prompt in enumerate(PROMPTS)]
        (path / "prompts.tsv").write_text("prompt_id\tlanguage\tkind\ttext\n" + "".join(lines))
        (path / "job.yaml").write_text(JOB)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
        return subprocess.Popen(
            [sys.executable, "-m", "troubled", *arguments],
            cwd=self.path,
            env=os.environ | {"PYTHONPATH": paths, troubled.TROUBLE: str(self.trouble)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def dataset(self, run: str) -> dict[str, bytes]:
        tables = self.path / run / "tables"
        return {path.relative_to(tables).as_posix(): path.read_bytes() for path in sorted(tables.rglob("*.parquet"))}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def undisturbed(folder: Folder) -> dict[str, bytes]:
    assert folder.run("submit", "job.yaml", "--run-dir", "undisturbed", "--address", "inline")[0] == 0
    return folder.dataset("undisturbed")


def test_harmful_units_are_set_aside_and_done_by_a_retry(folder: Folder, undisturbed: dict[str, bytes]) -> None:
    folder.trouble.write_text(json.dumps(HARM))
    code, _, err = folder.run("submit", "job.yaml", "--run-dir", "run")
    assert code == 3
    assert err.splitlines()[-1].startswith("runner: units set aside: 3; the first: prompt ")
    status = json.loads(folder.run("status", "run", "--json")[1])
    told = {one["prompt_id"]: (one["kind"], one["error"].partition(": ")[2]) for one in status["set_aside"]}
    assert told.pop("eat")[0] == "memory"
    assert told == {
        "crash": ("crash", "the worker died with the lease in hand"),
        "hang": ("deadline", "ran longer than 8 s"),
    }
    assert (status["stages"][0]["done"], status["stages"][0]["failed"], status["stages"][1]["failed"]) == (4, 3, 0)
    assert json.loads(folder.run("verify", "run", "--json")[1])["clean"]
    folder.trouble.unlink()
    assert folder.run("retry", "run", "--failed")[0] == 0
    assert folder.dataset("run") == undisturbed
    assert folder.run("verify", "run")[0] == 0


def test_a_retry_beside_the_live_driver(folder: Folder, undisturbed: dict[str, bytes]) -> None:
    slow = dict.fromkeys(PROMPTS[3:], "slow 3")
    folder.trouble.write_text(json.dumps(slow | {"crash": "crash"}))
    driver = folder.start("submit", "job.yaml", "--run-dir", "run", "--set", "execution.batch=1")
    deadline = time.monotonic() + 120
    while not any(event["event"] == "set_aside" for event in read_events(LocalStorage(), folder.path / "run" / "events.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    folder.trouble.write_text(json.dumps(slow))
    code, out, _ = folder.run("retry", "run", "--failed")
    assert code == 0
    assert out.startswith(f"taken by process {driver.pid} on host ")
    driver.communicate(timeout=300)
    assert driver.returncode == 0
    assert folder.dataset("run") == undisturbed
    done = [
        unit
        for event in read_events(LocalStorage(), folder.path / "run" / "events.log")
        if event["event"] == "done"
        for unit in event["units"]
    ]
    assert len(done) == len(set(done))

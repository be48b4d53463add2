"""A disk that is really full, in the middle of a run: one line, exit code 1, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[2] / "jobs"
JOB = "schema_version: 1\nname: small\nprotocol: sweep\ncatalog: prompts.tsv\nhorizon: 4\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB; skipped where this user may mount none."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def runner(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "runner", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_of_a_run(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "prompts.tsv").write_bytes((JOBS / "prompts" / "depth_3.tsv").read_bytes())
    (tmp_path / "job.yaml").write_text(JOB)
    submit = ("submit", tmp_path / "job.yaml", "--address", "inline", "--run-dir")
    assert runner(*submit, tmp_path / "whole").returncode == 0
    run = small_disk / "run"
    ended = runner(*submit, run)
    assert ended.returncode == 1
    line = ended.stderr.splitlines()[-1]
    assert line.startswith(f"runner: {run}/")
    assert line.endswith("No space left on device")
    assert "Traceback" not in ended.stderr
    assert runner("verify", run).returncode == 0
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert runner("resume", run, "--address", "inline").returncode == 0
    digests = [json.loads(runner("verify", root, "--json").stdout)["dataset_digest"] for root in (run, tmp_path / "whole")]
    assert digests[0] == digests[1]

"""Whoever goes on with a run means the same run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from random_runs import CATALOG, RandomRuns, submit
from tamper import copied

from actors import content
from runner import run as module
from runner.local_storage import LocalStorage
from runner.preflight import prepare
from runner.run import Run, open_run
from runner.verify import verify
from schemas.errors import InvalidInput
from schemas.job_file import load_job


@pytest.fixture
def own(random_runs: RandomRuns, tmp_path: Path) -> RandomRuns:
    """Runs on a copy of the checkpoint, which a test may change."""
    return RandomRuns(Path(shutil.copytree(random_runs.checkpoint, tmp_path / "checkpoint")), tmp_path)


def train_on(checkpoint: Path) -> None:
    """Other weights under the same headers: the last byte of the payload is another."""
    shard = max(checkpoint.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.unlink()
    shard.write_bytes(bytes(data))


def begun(runs: RandomRuns) -> Run:
    run = runs.run("own", {"protocol": "canonical", "horizon": 2})
    return copied(run, runs.folder / "own" / "begun")


def test_a_run_with_work_left_is_not_continued_with_other_weights(own: RandomRuns) -> None:
    run = begun(own)
    run.paths.finished.unlink()
    train_on(own.checkpoint)
    began = run.record.checkpoint_content
    assert began is not None
    with pytest.raises(
        InvalidInput, match=rf"checkpoint: found other weights: content \w{{16}}…, allowed: {began[:16]}…"
    ) as caught:
        submit(own.folder / "own" / "job.yaml", run.paths.root)
    assert caught.value.exit_code == 2
    assert len(set(re.findall(r"(\w{16})…", str(caught.value)))) == 2


def test_a_finished_run_is_read_whatever_the_weights_are_now(own: RandomRuns) -> None:
    run = begun(own)
    train_on(own.checkpoint)
    assert submit(own.folder / "own" / "job.yaml", run.paths.root).verdict().state == "finished"


def test_weights_that_take_long_to_read_are_not_recorded(own: RandomRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CONTENT_BYTES", 0)
    run = begun(own)
    assert json.loads(run.paths.record.read_bytes())["checkpoint_content"] is None
    run.paths.finished.unlink()
    assert submit(own.folder / "own" / "job.yaml", run.paths.root).verdict().state == "finished"


JOB = {"protocol": "canonical", "horizon": 2}


def begin_late(job: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with a job as a driver that looked for run.json before `run` was there, and was stopped in between."""
    looks = iter([False])
    monkeypatch.setattr(
        LocalStorage, "exists", lambda storage, path: next(looks, path.exists()) if path == run.paths.record else path.exists()
    )
    module._begin(prepare(load_job(job)), LocalStorage(), run.paths)


def test_a_late_driver_replaces_no_run(random_runs: RandomRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = submit(random_runs.job("late", JOB), tmp_path / "run")
    before = {path: path.read_bytes() for path in (run.paths.record, run.paths.catalog)}
    with monkeypatch.context() as patched:
        begin_late(random_runs.job("late", JOB), run, patched)
    other_prompts = random_runs.job("late", JOB, CATALOG.replace("sheep", "goat"))
    with monkeypatch.context() as patched, pytest.raises(InvalidInput, match="en-1: found text with SHA-256"):
        begin_late(other_prompts, run, patched)
    other_job = random_runs.job("late", JOB | {"horizon": 3})
    with monkeypatch.context() as patched, pytest.raises(InvalidInput, match="horizon: found 3, allowed: 2"):
        begin_late(other_job, run, patched)
    assert {path: path.read_bytes() for path in before} == before


def test_the_catalog_of_a_driver_that_was_killed_as_it_began(random_runs: RandomRuns, tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    (root / "catalog.tsv").write_text(CATALOG.replace("sheep", "goat"))
    job = random_runs.job("left", JOB)
    with pytest.raises(InvalidInput, match=r"catalog\.tsv: found other prompts, and no run\.json, allowed: this job's prompts"):
        submit(job, root)
    assert not (root / "run.json").exists()
    (root / "catalog.tsv").write_bytes((job.parent / "prompts.tsv").read_bytes())
    assert submit(job, root).verdict().state == "finished"


def edit(run: Run, **fields: object) -> None:
    record = json.loads(run.paths.record.read_bytes())
    run.paths.record.write_text(json.dumps(record | fields), "utf-8")


def test_a_record_with_another_identity_or_job_is_not_clean(own: RandomRuns) -> None:
    run = begun(own)
    assert verify(run.store, run.protocol, run.experiment).clean
    for fields in ({"checkpoint_identity": "0" * 64}, {"job": dict(run.record.job) | {"horizon": 3}}):
        edit(run, **fields)
        edited = open_run(run.paths.root)
        faults = verify(edited.store, edited.protocol, edited.experiment).faults
        assert any("run.json does not give it" in fault for fault in faults), faults
        edit(run, checkpoint_identity=run.record.checkpoint_identity, job=run.record.job)


def test_a_record_with_another_prompt_is_no_run(own: RandomRuns) -> None:
    run = begun(own)
    edit(run, prompts=dict(run.record.prompts) | {"en-2": "0" * 64})
    with pytest.raises(InvalidInput, match=r"run\.json: prompts\.en-2: found another prompt"):
        open_run(run.paths.root)

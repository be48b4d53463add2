"""A whole run killed at every operation on its disk, from the claim to the mark, by the real protocol and decoder."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import pytest
from faulty_disk import HastyDisk, full_disk, killing_disk
from random_runs import RandomRuns, dataset, submit
from test_faults import survives_in_child

from runner import local_storage
from runner.disk import Disk
from runner.run import open_run
from runner.verify import verify

JOB = {"protocol": "canonical", "horizon": 2}


def submit_on(disk: Disk, job: Path, root: Path, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(local_storage, "Disk", lambda: disk)
    submit(job, root)


def is_clean(root: Path) -> bool:
    run = open_run(root)
    return verify(run.store, run.protocol, run.experiment).clean


@pytest.mark.slow
def test_kill_at_every_operation_of_a_whole_run(random_runs: RandomRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = random_runs.job("killed", JOB)
    with monkeypatch.context() as patched:
        submit_on(HastyDisk(), job, tmp_path / "whole", patched)
    whole = dataset(open_run(tmp_path / "whole"))
    for at in count(1):
        root = tmp_path / str(at)
        with monkeypatch.context() as patched:
            if survives_in_child(partial(submit_on, killing_disk(at), job, root, patched)):
                break
        if (root / "run.json").exists():
            assert is_clean(root)
        run = submit(job, root)
        assert dataset(run) == whole
        assert is_clean(root)
        assert run.store.orphans() == [], at
        assert len(list((root / "claims").iterdir())) == 1
    assert at > 50


@pytest.mark.slow
def test_refusal_at_every_operation_of_a_whole_run(
    random_runs: RandomRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = random_runs.job("refused", JOB)
    for at in count(1):
        root = tmp_path / str(at)
        disk = full_disk(at)
        with monkeypatch.context() as patched:
            try:
                submit_on(disk, job, root, patched)
            except OSError as error:
                assert error.strerror == "No space left on device"  # noqa: PT017 - in the end it is not raised
            else:
                break
        if (root / "run.json").exists():
            assert is_clean(root)
        assert submit(job, root).verdict().state == "finished"
        assert is_clean(root)
    assert at > 50

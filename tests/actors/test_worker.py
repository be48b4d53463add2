from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from lease_work import execute, execute_backwards, lease

import kernels
from actors.executor import Done, Failed, WorkerSpec
from actors.worker import Worker
from schemas.errors import InvalidInput


@pytest.fixture(scope="module")
def worker() -> Worker:
    return Worker(WorkerSpec("builtin", "official", threads=1), "w7")


def test_report_says_what_a_fleet_must_agree_on(worker: Worker) -> None:
    report = worker.report()
    assert (report.worker, report.build_id, report.threads) == ("w7", kernels.BUILD_ID, 1)
    assert report.checkpoint_identity == worker.session.checkpoint.identity
    assert report.versions.keys() >= {"python", "numpy", "pyarrow", "tokenizers", "ray"}


def test_builtin_is_the_embedded_checkpoint(worker: Worker) -> None:
    by_path = Worker(WorkerSpec(str(kernels.builtin_checkpoint()), "official", threads=1), "w0")
    assert by_path.report().checkpoint_identity == worker.report().checkpoint_identity


def test_outcome_becomes_done_with_results_in_order(worker: Worker) -> None:
    work = lease(1, "why", "the sheep")
    done = worker.run(execute, work).event(work, "w7")
    assert isinstance(done, Done)
    assert (done.lease, done.worker) == (work, "w7")
    assert [result.key for result in done.results] == [unit.key for unit in work.units]


@pytest.mark.parametrize(
    ("work", "kind", "error"),
    [
        ("raise value", "error", "ValueError: no such order"),
        ("raise memory", "memory", "MemoryError"),
        ("raise finding", "finding", "bits differ"),
        ("raise input", "error", "prompt p0: text: found 0 tokens, allowed: 1"),
        ("lambda", "error", "ArrowInvalid: "),
    ],
)
def test_exception_becomes_failed_with_its_traceback(worker: Worker, work: str, kind: str, error: str) -> None:
    failed = worker.run(execute, lease(1, work)).event(lease(1, work), "w7")
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert failed.error.startswith(error)
    assert "\n" not in failed.error
    assert "lease_work.py" in failed.detail


def test_results_for_other_units_are_an_error(worker: Worker) -> None:
    work = lease(1, "why", "sheep")
    failed = worker.run(execute_backwards, work).event(work, "w7")
    assert isinstance(failed, Failed)
    assert "other units than it was handed" in failed.error


def test_checkpoint_that_is_none_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        Worker(WorkerSpec(str(tmp_path), "official", threads=1), "w0")
    assert error.value.file.startswith(str(tmp_path))


def test_checkpoint_without_tokenizer_is_invalid_input(tmp_path: Path) -> None:
    shutil.copytree(kernels.builtin_checkpoint(), tmp_path / "copy", ignore=shutil.ignore_patterns("tokenizer.json"))
    with pytest.raises(InvalidInput, match=r"tokenizer\.json: found no such file"):
        Worker(WorkerSpec(str(tmp_path / "copy"), "official", threads=1), "w0")


def test_invalid_input_survives_a_journey_between_processes() -> None:
    error = InvalidInput("job.yaml", "fork.layer", "12", "0..11")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.as_dict()) == (str(error), error.as_dict())

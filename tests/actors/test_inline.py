from __future__ import annotations

from pathlib import Path

import pytest
from lease_work import execute, lease

from actors.executor import Done, Failed, Joined, WorkerSpec
from actors.inline import InlineExecutor
from schemas.errors import InvalidInput


@pytest.fixture
def executor() -> InlineExecutor:
    executor = InlineExecutor(WorkerSpec("builtin", "official", threads=1), execute)
    executor.start()
    return executor


def test_joins_before_anything_else(executor: InlineExecutor) -> None:
    executor.submit(lease(1, "sheep"))
    assert [type(event) for event in executor.wait(0)] == [Joined, Done]


def test_one_lease_at_a_time(executor: InlineExecutor) -> None:
    assert executor.slots() == 1
    executor.submit(lease(1, "sheep"))
    assert executor.slots() == 0
    with pytest.raises(RuntimeError, match="without an idle worker"):
        executor.submit(lease(2, "sheep"))


def test_failure_leaves_the_worker_at_work(executor: InlineExecutor) -> None:
    executor.submit(lease(1, "raise value"))
    failed = executor.wait(0)[-1]
    assert isinstance(failed, Failed)
    executor.submit(lease(2, "sheep"))
    (done,) = executor.wait(0)
    assert isinstance(done, Done)


def test_unusable_checkpoint_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        InlineExecutor(WorkerSpec(str(tmp_path), "official", threads=1), execute).start()


def test_nothing_is_left_after_close(executor: InlineExecutor) -> None:
    executor.close()
    executor.close()
    assert (executor.slots(), list(executor.workers())) == (0, [])

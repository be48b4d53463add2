"""Units that fail for good, and their second chance."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_job import Command

from actors.executor import Session
from runner.claim import Claim
from runner.protocols import breadth
from runner.retry_request import RetryRequest
from runner.run import open_run
from runner.stage_work import STRIKES
from runner.store import RunStore
from schemas.unit import Unit, UnitResult


def break_prompt(monkeypatch: pytest.MonkeyPatch, prompt_id: str) -> None:
    execute = breadth.execute

    def broken(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
        if any(unit.prompt_id == prompt_id for unit in units):
            raise RuntimeError("the cause is there")
        return execute(session, units)

    monkeypatch.setattr(breadth, "execute", broken)


def test_a_unit_that_fails_is_set_aside_and_ends_with_3(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    break_prompt(monkeypatch, "zh-1")
    ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 3
    assert ended.err.splitlines()[-1] == (
        "runner: units set aside: 1; the first: prompt zh-1 in stage horizon-2: error after 3 tries: "
        "RuntimeError: the cause is there"
    )
    status = run("status", "runs/small", "--json").json
    assert status["state"] == "failed"
    assert [one["prompt_id"] for one in status["set_aside"]] == ["zh-1"]
    assert "the cause is there" in run("status", "runs/small").out


def test_retry_does_what_is_left_once_the_cause_is_gone(run: Command, submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = run("verify", submitted, "--json").json["dataset_digest"]
    with monkeypatch.context() as patched:
        break_prompt(patched, "zh-1")
        assert run("submit", "job.yaml", "--address", "inline", "--run-dir", "other").code == 3
    assert run("resume", "other", "--address", "inline").code == 3  # a resume tries nothing twice
    assert run("retry", "other", "--failed", "--address", "inline").code == 0
    assert run("verify", "other", "--json").json["dataset_digest"] == digest


def test_a_unit_that_fails_again_is_set_aside_again(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    break_prompt(monkeypatch, "zh-1")
    run("submit", "job.yaml", "--address", "inline")
    assert run("retry", "runs/small", "--failed", "--address", "inline").code == 3


def test_a_stopped_run_goes_on_with_what_was_set_aside_and_with_the_rest(
    run: Command, submitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = run("verify", submitted, "--json").json["dataset_digest"]
    execute = breadth.execute
    tries: list[str] = []

    def broken(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
        tries.append(units[0].prompt_id)
        if tries.count("en-1") == STRIKES:
            os.kill(os.getpid(), signal.SIGINT)
        if units[0].prompt_id == "en-1":
            raise RuntimeError("the cause is there")
        return execute(session, units)

    with monkeypatch.context() as patched:
        patched.setattr(breadth, "execute", broken)
        options = ("--address", "inline", "--run-dir", "other", "--set", "execution.batch=1")
        assert run("submit", "job.yaml", *options).code == 130
    stopped = run("status", "other", "--json").json
    assert (stopped["state"], len(stopped["set_aside"])) == ("unfinished", 1)
    assert run("retry", "other", "--failed", "--address", "inline").code == 0
    assert run("verify", "other", "--json").json["dataset_digest"] == digest


def fail_once(run: Command, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    """A run in which zh-1 is set aside; the cause is gone afterwards."""
    with monkeypatch.context() as patched:
        break_prompt(patched, "zh-1")
        assert run("submit", "job.yaml", "--address", "inline").code == 3
    return open_run(Path("runs/small")).store


def test_a_live_driver_is_asked(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fail_once(run, monkeypatch)
    taken: list[object] = []

    def take() -> None:
        request = RetryRequest(store)
        while not request.pending():
            time.sleep(0.01)
        taken.append(request.take(["horizon-2", "horizon-4"]))

    with Claim(store.storage, store.paths) as claim:
        store.recover(claim)
        driver = threading.Thread(target=take)
        driver.start()
        ended = run("retry", "runs/small", "--failed", "--address", "inline")
        driver.join()
    assert ended.code == 0
    assert ended.out.startswith(f"taken by process {os.getpid()} on host ")
    assert ended.out.endswith("units to be tried again: 1; `runner status runs/small --watch` shows them\n")
    assert [len(units) for units in taken[0].values()] == [1]  # type: ignore[attr-defined]
    assert run("status", "runs/small", "--json").json["state"] == "unfinished"
    assert run("resume", "runs/small", "--address", "inline").code == 0


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_driver_that_ends_without_an_answer_leaves_the_retry_to_the_command(
    run: Command, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Of one on another machine it cannot be seen that it has ended; the claim is asked again after a while."""
    store = fail_once(run, monkeypatch)
    if elsewhere:
        module = sys.modules["runner.cli.retry"]
        monkeypatch.setattr(module, "holder", lambda *_: "process 1 on host elsewhere")
        monkeypatch.setattr(module, "EXPIRY_SECONDS", 0.5)
    claim = Claim(store.storage, store.paths)
    claim.__enter__()

    def end() -> None:
        while not RetryRequest(store).pending():
            time.sleep(0.01)
        claim.__exit__(None, None, None)

    driver = threading.Thread(target=end)
    driver.start()
    ended = run("retry", "runs/small", "--failed", "--address", "inline")
    driver.join()
    assert ended.code == 0
    assert run("status", "runs/small", "--json").json["state"] == "finished"
    assert not RetryRequest(store).pending()


def test_it_says_that_it_waits_for_a_sign_of_life(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver of another machine died with the claim in its hands."""
    store = fail_once(run, monkeypatch)
    monkeypatch.setattr("runner.claim.EXPIRY_SECONDS", 0.5)
    with monkeypatch.context() as patched:
        patched.setattr("runner.process.socket.gethostname", lambda: "elsewhere")
        Claim(store.storage, store.paths)._acquire(locked=False)
    ended = run("retry", "runs/small", "--failed", "--address", "inline")
    assert ended.code == 0
    assert "to see whether another driver lives: process " in ended.err
    assert " on host elsewhere since " in ended.err


def test_a_live_driver_with_nothing_set_aside_is_left_alone(run: Command, submitted: Path) -> None:
    store = open_run(submitted).store
    with Claim(store.storage, store.paths):
        ended = run("retry", submitted, "--failed", "--address", "inline")
    assert (ended.code, RetryRequest(store).pending()) == (0, False)
    assert "no unit is set aside" in ended.out

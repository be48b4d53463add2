"""Units that fail for good, and their second chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from small_job import Command

from actors.executor import Session
from runner.protocols import breadth
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

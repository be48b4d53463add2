"""How a control that fails ends: a difference is 4, a fork without a usable class 3, a bad job 2."""

from __future__ import annotations

from typing import Any

import pytest
from random_runs import RandomRuns
from small_job import Command

import kernels
from runner.protocols import persistent_state_execution

JOB = {"protocol": "persistent_state", "fork": {"layer": 3}, "decode_inputs": 2}


def test_a_wrong_delta_ends_with_4(run: Command, random_runs: RandomRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.PostMhcDelta
    monkeypatch.setattr(kernels, "PostMhcDelta", lambda layer, delta, before, after: right(layer, delta * 2, before, after))
    job = random_runs.job("ends-4", JOB | {"protocol": "post_mhc"})
    ended = run("submit", job, "--run-dir", job.parent / "run", "--address", "inline")
    assert ended.code == 4
    assert len([line for line in ended.err.splitlines() if line.startswith("runner: en-1, layer 3, position 13: ")]) == 1


def test_a_fork_without_a_usable_class_ends_with_3_and_says_why(
    run: Command, random_runs: RandomRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unusable(*arguments: Any) -> str:
        return "it predicts another token"

    monkeypatch.setattr(persistent_state_execution, "_unusable", unusable)
    job = random_runs.job("ends-3", JOB)
    ended = run("submit", job, "--run-dir", job.parent / "run", "--address", "inline")
    assert ended.code == 3
    assert "no class that can serve; class" in ended.err


def test_a_bad_job_ends_with_2(run: Command, random_runs: RandomRuns) -> None:
    job = random_runs.job("ends-2", JOB)
    ended = run("submit", job, "--run-dir", job.parent / "run", "--address", "inline", "--set", "fork.layer=5")
    assert ended.code == 2
    assert ended.err.startswith(f"runner: {job}: fork.layer: found 5, allowed: less than 5")
    assert not (job.parent / "run").exists()

"""`runner show` of runs that have many continuations a prompt."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from random_runs import RandomRuns
from small_jobs import rows, small_run

from runner.cli import main


def show(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["show", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_prompts_different_texts_are_counted(random_runs: RandomRuns, capsys: pytest.CaptureFixture[str]) -> None:
    run = small_run(random_runs, "persistent")
    code, out, _ = show(capsys, str(run.paths.root), "en-1", "--json")
    shown = Counter((row["scheme"], row["text"]) for row in json.loads(out))
    assert code == 0
    assert shown == Counter((row["scheme"], row["text"]) for row in rows(run) if row["prompt_id"] == "en-1")
    code, out, _ = show(capsys, str(run.paths.root), "en-1")
    assert "Different texts" in out
    assert "schedules" in out


def test_without_a_prompt_the_report_is_shown(random_runs: RandomRuns, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = show(capsys, str(small_run(random_runs, "persistent").paths.root))
    assert "Two reference axes" in out


def test_a_run_without_continuations_shows_its_report(random_runs: RandomRuns, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = show(capsys, str(small_run(random_runs, "intermediates").paths.root), "en-1")
    assert "Scheme C against native" in out


def test_an_unknown_prompt_is_refused(random_runs: RandomRuns, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = show(capsys, str(small_run(random_runs, "canonical").paths.root), "en-9")
    assert code == 2
    assert "prompt_id: found en-9, allowed: one of 2 IDs" in err

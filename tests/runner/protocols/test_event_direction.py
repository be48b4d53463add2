"""Event direction on a random checkpoint of 12 classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from random_runs import CLASSES, Changed, RandomRuns, dataset, submit, violations

import kernels
from actors.executor import Execute, Session, WorkerSpec
from actors.inline import InlineExecutor
from runner.interrupt import Interrupt, Interrupted
from runner.preflight import prepare
from runner.progress import Silent
from runner.retry_request import RetryRequest
from runner.run import Run, carry_out, make_executor, open_run
from schemas.errors import InvalidInput, UnitsFailed
from schemas.job_file import load_job
from schemas.unit import Lease, Unit, UnitResult

HORIZON, LONG = 4, 9


def classes(run: Run) -> list[dict[str, Any]]:
    return run.store.table("classes", "event_direction_classes").to_pylist()


def replays(run: Run, number: int) -> list[dict[str, Any]]:
    return run.store.table(f"replay-{number}", "event_direction_replays").to_pylist()


def test_every_class_is_continued_once(event_direction_run: Run) -> None:
    pairs = kernels.structural_classes(4)
    for prompt, found in groupby(classes(event_direction_run), key=lambda row: row["prompt_id"]):
        rows = list(found)
        assert [row["structural_class"] for row in rows] == list(range(CLASSES)), prompt
        assert [row["branch_order"] for row in rows] == [low for low, _ in pairs]
        assert {len(row["token_ids"]) for row in rows} == {HORIZON}


def test_the_sample_is_replayed_twice_in_units_of_its_own(event_direction_run: Run) -> None:
    first, second = replays(event_direction_run, 1), replays(event_direction_run, 2)
    assert first
    assert {row["unit_key"] for row in first}.isdisjoint(row["unit_key"] for row in second)
    for one, other in zip(first, second, strict=True):
        assert len(one["token_ids"]) == LONG
        assert {key: one[key] for key in one if key not in ("run", "unit_key")} == {
            key: other[key] for key in other if key not in ("run", "unit_key")
        }


def test_a_replay_begins_as_its_class_did(event_direction_run: Run) -> None:
    said = {(row["prompt_id"], row["structural_class"]): row for row in classes(event_direction_run)}
    for row in replays(event_direction_run, 1):
        trace = said[row["prompt_id"], row["structural_class"]]
        assert row["token_ids"][:HORIZON] == trace["token_ids"]
        assert row["post_mhc_sha256"] == trace["post_mhc_sha256"]


def test_each_stratum_gives_what_was_asked_or_all_it_has(event_direction_run: Run) -> None:
    drawn = {(row["prompt_id"], row["structural_class"]) for row in replays(event_direction_run, 1)}
    for prompt in ("en-1", "en-2"):
        for money in (True, False):
            eligible = {
                (prompt, row["structural_class"])
                for row in classes(event_direction_run)
                if row["prompt_id"] == prompt and ("$" in row["text"]) == money
            }
            assert len(drawn & eligible) == min(2, len(eligible))


@pytest.mark.parametrize(
    ("table", "column", "value", "line"),
    [
        ("event_direction_forks", "native_text", "other", "en-1, classes from 5: another fork: native_text"),
        ("event_direction_classes", "branch_order", 23, "en-1, class 0: order 23 is not its lower one"),
        ("event_direction_classes", "token_ids", [1], "en-1, class 0: 1 generated tokens instead of 4"),
        ("event_direction_classes", "token_sha256", "0" * 64, "en-1, class 0: the digest is not that of the tokens"),
        ("event_direction_replays", "post_mhc_sha256", "0" * 64, "replay 2: post_mhc_sha256 is"),
        ("event_direction_replays", "text", "other", "differs from replay 1 in text"),
        ("event_direction_replays", "token_ids", [1] * LONG, "begins with other tokens than the class's first execution"),
    ],
)
def test_a_row_that_differs_is_a_violation(event_direction_run: Run, table: str, column: str, value: Any, line: str) -> None:
    second = Changed(event_direction_run, table, column, value, row=lambda row: row.get("run") != 1)
    found = violations(event_direction_run, second)
    assert any(line in one for one in found), found


def test_equal_states_with_other_tokens_are_a_violation(event_direction_run: Run) -> None:
    native = event_direction_run.store.table("native", "event_direction_forks").to_pylist()[0]
    changed = Changed(event_direction_run, "event_direction_classes", "post_mhc_sha256", native["native_post_mhc_sha256"],
                      row=lambda row: row["token_ids"] != native["native_token_ids"] and row["prompt_id"] == "en-1")  # fmt: skip
    assert any("gave other tokens" in one for one in violations(event_direction_run, changed))


def test_how_classes_are_cut_into_units_changes_nothing_else(random_runs: RandomRuns, event_direction_run: Run) -> None:
    other = random_runs.run("blocks", random_runs.event_direction() | {"block": 12})
    without_key = [row | {"unit_key": ""} for row in classes(event_direction_run)]
    assert [row | {"unit_key": ""} for row in classes(other)] == without_key
    assert replays(other, 1) == replays(event_direction_run, 1)


class Stopping:
    """An inline executor that asks for an interrupt after so many leases."""

    def __init__(self, inner: Any, interrupt: Interrupt, leases: int) -> None:
        self._inner, self._interrupt, self._left = inner, interrupt, leases

    def submit(self, lease: Lease) -> None:
        self._left -= 1
        if self._left == 0:
            self._interrupt.requested = True
        self._inner.submit(lease)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("leases", [1, 4, 9])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    random_runs: RandomRuns, event_direction_run: Run, tmp_path: Path, leases: int
) -> None:
    """Stopped while tracing, among the classes and among the replays; resumed from the run's directory alone."""
    prepared = prepare(load_job(random_runs.folder / "event_direction" / "job.yaml"))
    interrupt = Interrupt(lambda: None)
    stopping: Any = Stopping(make_executor(prepared, "inline"), interrupt, leases)
    with pytest.raises(Interrupted):
        carry_out(prepared, tmp_path / "run", stopping, progress=Silent(), interrupt=interrupt)
    again = prepare(open_run(tmp_path / "run").job_file)
    executor = make_executor(again, "inline")
    resumed = carry_out(again, tmp_path / "run", executor, progress=Silent(), interrupt=Interrupt(lambda: None))
    assert dataset(resumed) == dataset(event_direction_run)


def test_no_sample_is_drawn_from_a_part_of_the_classes(random_runs: RandomRuns, event_direction_run: Run, tmp_path: Path) -> None:
    """A unit of classes fails for good, and is retried once its cause is gone."""
    prepared = prepare(load_job(random_runs.folder / "event_direction" / "job.yaml"))
    root = tmp_path / "run"

    def failing(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
        if any(unit.stage == "classes" and unit.meaning["first_class"] == 5 for unit in units):
            raise RuntimeError("the cause is there")
        return prepared.protocol.execute(session, units)

    def carried_out(execute: Execute) -> Run:
        job = prepared.experiment.job
        executor = InlineExecutor(WorkerSpec(prepared.job_file.checkpoint, job.numerics, job.execution.threads), execute)
        return carry_out(prepared, root, executor, progress=Silent(), interrupt=Interrupt(lambda: None))

    with pytest.raises(UnitsFailed, match="stage replay-1 needs every unit of stage classes; units set aside: 2"):
        carried_out(failing)
    run = open_run(root)
    assert run.verdict().state == "failed"
    assert "replay-1" not in run.store.plans()
    assert run.store.data_files()  # what is there can be read as a dataset
    run.store.recover()
    RetryRequest(run.store).clear(run.stages())
    assert dataset(carried_out(prepared.protocol.execute)) == dataset(event_direction_run)


def test_a_class_of_no_fork_is_a_violation(event_direction_run: Run) -> None:
    for column, value, said in (
        ("prompt_id", "en-9", "en-9, class 0: the prompt's fork has no row"),
        ("structural_class", CLASSES, f"en-1, class {CLASSES}: the fork has {CLASSES} classes"),
    ):
        changed = Changed(event_direction_run, "event_direction_classes", column, value)
        assert said in violations(event_direction_run, changed)


def test_the_rules_of_a_file_travel_with_the_run(random_runs: RandomRuns) -> None:
    content = random_runs.event_direction() | {"rules": "rules.yaml"}
    job = random_runs.job("rule-file", content)
    (job.parent / "rules.yaml").write_text('schema_version: 1\nrules: [{label: money, words: ["$"]}]\n')
    run = submit(job, job.parent / "run")
    (job.parent / "rules.yaml").unlink()
    assert open_run(run.paths.root).experiment.job == run.experiment.job
    assert [rule["label"] for rule in run.record.job["rules"]["rules"]] == ["money"]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("fork.layer=6", "fork.layer: found 6, allowed: 0..5"),
        ("replay_horizon=3", "found replay_horizon 3 and horizon 4, allowed: a replay_horizon no less than horizon"),
        ("replay_horizon=4000", "replay_horizon: found 4000 after the 13 tokens of prompt en-1"),
        ("sample.labels=[hiring]", "found sample.labels with hiring, allowed: labels of the rules, each once: money, other"),
        ("rules=missing.yaml", "missing.yaml: found no such file or directory, allowed: a readable file"),
        ("rules=../rules.yaml", "rules: found '../rules.yaml', allowed: a path inside the job file's folder, or an absolute one"),
        ("rules.rules=[{label: A, words: [x]}]", "rules.rules.0.label: found 'A', allowed: 1..32 of a-z"),
        ("rules.rules=[{label: a, word: [x]}]", "rules.rules.0.word: found an unknown key, allowed: words (nearest)"),
    ],
)
def test_a_job_that_cannot_run_is_refused_before_anything_runs(random_runs: RandomRuns, override: str, line: str) -> None:
    job = random_runs.job("refused-direction", random_runs.event_direction())
    with pytest.raises(InvalidInput) as caught:
        submit(job, random_runs.folder / "refused-direction" / "run", [override])
    assert line in str(caught.value)

"""The verdict comes from the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import DirectedExecutor, TinyProtocol, drive, experiment, open_store

from runner.plan import plan_stage, write_plan
from runner.store import RunStore
from runner.verdict import StageCount, finish, verdict
from schemas.errors import ConformanceFinding, InvalidInput, UnitsFailed

STAGES = ("4", "8")


def test_a_run_that_was_not_begun_is_unfinished(tmp_path: Path) -> None:
    result = verdict(open_store(tmp_path), STAGES, {})
    assert result.state == "unfinished"
    assert result.stages == [StageCount("4", None, 0, 0), StageCount("8", None, 0, 0)]


def test_a_run_is_finished_when_it_is_marked_and_not_before(tmp_path: Path) -> None:
    store = drive(tmp_path)
    assert verdict(store, STAGES, {}).state == "unfinished"
    finish(store, STAGES)
    assert verdict(store, STAGES, {}).state == "finished"
    assert store.finished() == {**(store.finished() or {}), "dataset_digest": store.dataset_digest()}


def test_a_run_with_units_set_aside_has_failed_and_names_one(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    assert verdict(store, STAGES, {}).state == "failed"
    with pytest.raises(UnitsFailed, match="units set aside: 1; the first: prompt p0 in stage 4: crash after 3 tries"):
        finish(store, STAGES)
    assert store.finished() is None


def test_a_run_that_gave_other_bytes_differs_for_ever(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.paths.finding("sums", "4", "a" * 64).write_bytes(b"")
    assert verdict(store, STAGES, {}).state == "differs"
    with pytest.raises(ConformanceFinding, match="gave other bytes"):
        finish(store, STAGES)


def test_a_stage_that_waits_for_units_set_aside_is_no_work_left(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    store.paths.plan("8").unlink()
    assert verdict(store, STAGES, {}).state == "unfinished"
    assert verdict(store, STAGES, {"8": ("4",)}).state == "failed"


def test_what_is_committed_and_not_planned_is_never_marked_as_finished(tmp_path: Path) -> None:
    store = drive(tmp_path)
    write_plan(store, "8", plan_stage(store, "8", TinyProtocol().units(experiment(), "8", store)[1:]))
    with pytest.raises(InvalidInput, match=r"8\.log: found 1 committed units that the plan does not have"):
        finish(store, STAGES)
    assert store.finished() is None


def test_a_run_that_is_not_whole_cannot_be_marked(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.commits("8").popitem()
    with pytest.raises(RuntimeError, match="stage 8 was worked off"):
        finish(store, STAGES)


def test_a_file_that_was_damaged_or_lost_since_its_commit_keeps_the_mark_away(tmp_path: Path) -> None:
    store = drive(tmp_path)
    damaged = min(store.paths.table("tokens").iterdir())
    whole = damaged.read_bytes()
    damaged.unlink()
    with pytest.raises(InvalidInput, match=f"{damaged.name}: found no such file"):
        finish(store, STAGES)
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InvalidInput, match=f"{damaged.name}: found SHA-256"):
        finish(store, STAGES)
    assert store.finished() is None


@pytest.mark.parametrize("what", ["commits/4.log", "plans/8.jsonl"])
def test_a_finished_run_that_lost_a_line_since_is_not_called_finished(tmp_path: Path, what: str) -> None:
    store = drive(tmp_path)
    finish(store, STAGES)
    path = tmp_path / what
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConformanceFinding, match=r"finished\.json: .* was .*, now it is .*runner verify"):
        verdict(RunStore(store.paths, store.schemas), STAGES, {})


def test_a_reader_whose_knowledge_is_older_than_the_mark_looks_again(tmp_path: Path) -> None:
    store = drive(tmp_path)
    reader = RunStore(store.paths, store.schemas)
    reader.commits("8").popitem()
    finish(store, STAGES)
    assert verdict(reader, STAGES, {}) == verdict(store, STAGES, {})

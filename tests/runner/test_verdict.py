"""The verdict comes from the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext as does_not_raise
from pathlib import Path

import pyarrow.dataset
import pytest
from tiny_run import STAGES, DirectedExecutor, TinyProtocol, complete, dataset, drive, experiment, open_reader, open_store

from runner.plan import plan_stage, write_plan
from runner.retry_request import RetryRequest
from runner.store import RunStore
from runner.verdict import StageCount, finish, verdict
from schemas.errors import ConformanceFinding, InvalidInput, RunBusy, UnitsFailed


def test_a_run_that_was_not_begun_is_unfinished(tmp_path: Path) -> None:
    result = verdict(open_store(tmp_path), STAGES, {})
    assert result.state == "unfinished"
    assert result.stages == [StageCount("4", None, 0, 0), StageCount("8", None, 0, 0)]


def test_a_run_is_finished_when_it_is_marked_and_not_before(tmp_path: Path) -> None:
    store = drive(tmp_path)
    assert verdict(store, STAGES, {}).state == "unfinished"
    finish(store, STAGES)
    assert verdict(store, STAGES, {}).state == "finished"
    mark = open_reader(store).finished()
    assert mark is not None
    assert mark.dataset_digest == store.dataset_digest()
    assert {stage: plan.units for stage, plan in mark.plans.items()} == {s: len(store.units(s)) for s in STAGES}


def test_a_run_with_units_set_aside_has_failed_and_names_one(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    assert verdict(store, STAGES, {}).state == "failed"
    with pytest.raises(UnitsFailed, match="units set aside: 1; the first: prompt p0 in stage 4: crash after 3 tries"):
        finish(store, STAGES)
    assert store.finished() is None
    assert store.dataset_digest() is None


def test_the_rows_of_a_run_with_units_set_aside_can_be_read_as_a_dataset(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    with pytest.raises(UnitsFailed):
        finish(store, STAGES)
    assert pyarrow.dataset.dataset(tmp_path / "tables" / "sums").to_table().num_rows == sum(len(store.units(s)) for s in STAGES)
    RetryRequest(store).clear(STAGES)
    assert dataset(complete(tmp_path)) == dataset(complete(tmp_path / "undisturbed"))


def test_a_run_that_gave_other_bytes_differs_for_ever(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.storage.replace(store.paths.finding("sums", "4", "a" * 64), b"")
    assert verdict(store, STAGES, {}).state == "differs"
    with pytest.raises(ConformanceFinding, match="gave other bytes"):
        finish(store, STAGES)


def test_a_stage_that_waits_for_units_set_aside_is_no_work_left(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    del store.index().plans["8"]
    assert verdict(store, STAGES, {}).state == "unfinished"
    assert verdict(store, STAGES, {"8": ("4",)}).state == "failed"


def test_what_is_committed_and_not_planned_is_never_marked_as_finished(tmp_path: Path) -> None:
    store = drive(tmp_path)
    write_plan(store, "8", plan_stage(store, "8", TinyProtocol().units(experiment(), "8", store)[1:]))
    with pytest.raises(InvalidInput, match=r"journal: 8: found 1 committed units that the plan does not have"):
        finish(store, STAGES)
    assert store.finished() is None


def test_a_run_that_is_not_whole_cannot_be_marked(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.index().units["8"].popitem()
    with pytest.raises(RuntimeError, match="stage 8 was worked off"):
        finish(store, STAGES)


def test_an_entry_that_was_damaged_or_lost_since_its_commit_keeps_the_mark_away(tmp_path: Path) -> None:
    store = drive(tmp_path)
    damaged = max(store.paths.entry(entry.number) for entry in store.entries() if entry.kind == "units")
    whole = damaged.read_bytes()
    damaged.unlink()
    with pytest.raises(InvalidInput, match=f"{damaged.name}: found no such file"):
        finish(store, STAGES)
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InvalidInput, match=f"{damaged.name}: .*found SHA-256"):
        finish(store, STAGES)
    assert open_reader(store).finished() is None


def lose_a_file(store: RunStore) -> None:
    store.data_files()[0].unlink()


def add_a_file(store: RunStore) -> None:
    path = store.data_files()[0]
    path.with_name("more.parquet").write_bytes(path.read_bytes())


def change_the_mark(store: RunStore) -> None:
    path = store.paths.finished
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace('"dataset_digest": "', '"dataset_digest": "0'))


@pytest.mark.parametrize("damage", [lose_a_file, add_a_file, change_the_mark])
def test_a_finished_run_that_is_not_what_was_marked_is_not_called_finished(
    tmp_path: Path, damage: Callable[[RunStore], None]
) -> None:
    store = complete(tmp_path)
    damage(store)
    with pytest.raises(ConformanceFinding, match=r"finished\.json: .* (was .*, now it is|was not there|is not there any more).*"):
        verdict(open_reader(store), STAGES, {})


def test_a_plan_that_was_changed_since_is_not_read(tmp_path: Path) -> None:
    store = complete(tmp_path)
    path = store.plan_paths("8")[0]
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(b"".join(data.splitlines(keepends=True)[:-1]))
    with pytest.raises(InvalidInput, match="a damaged plan"):
        verdict(open_reader(store), STAGES, {})


def test_a_reader_that_began_before_the_end_sees_the_end(tmp_path: Path) -> None:
    store = drive(tmp_path)
    reader, other = open_reader(store), open_reader(store)
    reader.index()
    finish(store, STAGES)
    reader.refresh()
    assert verdict(reader, STAGES, {}) == verdict(store, STAGES, {}) == verdict(other, STAGES, {})


def test_a_finished_run_takes_nothing_more(tmp_path: Path) -> None:
    store = complete(tmp_path)
    with pytest.raises(RuntimeError, match="never changes again"):
        store.append("cleared", {"stage": "4", "units": []})
    assert open_store(tmp_path).orphans() == []


def test_a_data_file_that_was_written_late_is_swept_by_the_next_driver(tmp_path: Path) -> None:
    store = complete(tmp_path)
    add_a_file(store)
    assert [path.name for path in open_reader(store).orphans()] == ["more.parquet"]
    assert set(open_store(tmp_path).data_files()) == set(store.part_paths())
    assert verdict(open_reader(store), STAGES, {}).state == "finished"


def test_of_two_drivers_at_the_mark_the_second_has_the_same_or_is_busy(tmp_path: Path) -> None:
    mark = complete(tmp_path / "other").paths.finished.read_text()
    for text, expected in (
        (mark, does_not_raise()),
        (mark.replace('"dataset_digest": "', '"dataset_digest": "0'), pytest.raises(RunBusy)),
    ):
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        slow = drive(root)
        slow.paths.finished.write_text(text)  # by a driver that took the run over
        with expected:
            finish(slow, STAGES)
        assert slow.paths.finished.read_text() == text

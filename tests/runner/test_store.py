"""Readers see what the journal or the mark names, and nothing else."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from tiny_run import TOKENS, DirectedExecutor, TinyProtocol, complete, drive, experiment, open_reader, open_store

from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.store import RunStore
from schemas.errors import InvalidInput, RunBusy


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return complete(tmp_path)


def test_rows_come_in_plan_order_whatever_the_order_of_arrival(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(workers_alive=5, seed=3), about=experiment(prompts=9, batch=1))
    assert list(store.index().units["4"]) != store.planned_keys("4")
    assert [row["prompt_id"] for row in store.table("4", "tokens").to_pylist()] == [f"p{number}" for number in range(9)]


def test_more_entries_than_are_open_at_a_time_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = drive(tmp_path, DirectedExecutor(workers_alive=5, seed=3), about=experiment(prompts=30, batch=1))
    before = store.table("4", "tokens")
    monkeypatch.setattr("runner.store._OPEN_BYTES", 200)
    assert open_reader(store).table("4", "tokens") == before


def test_what_killed_drivers_left_is_never_read_and_is_swept_by_the_next(tmp_path: Path) -> None:
    store = drive(tmp_path)
    rows = store.table("4", "tokens")
    torn = store.paths.journal / ".000000009.entry.0123.tmp"
    torn.write_bytes(b"{")
    unnamed = store.paths.plan("4", store.next_entry(), 0)
    unnamed.write_bytes(b"{}")
    assert open_reader(store).table("4", "tokens") == rows
    assert store.orphans() == [torn, unnamed]
    open_store(tmp_path)
    assert not torn.exists()
    assert not unnamed.exists()


def test_a_late_driver_does_not_sweep_the_plan_of_the_one_that_took_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    class Asleep(LocalStorage):
        """Stops for so long, between its beginning and its look for plans that no entry names, that all the work is done."""

        def names(self, directory: PurePath) -> list[str]:
            if directory == store.paths.plans and not super().names(directory):
                drive(tmp_path)
            return super().names(directory)

    RunStore(store.paths, store.schemas, Asleep()).recover()
    plans = [path for stage in ("4", "8") for path in open_reader(store).plan_paths(stage)]
    assert [path.name for path in plans] == LocalStorage().names(store.paths.plans)
    assert len(plans) == 2


def test_the_journal_goes_when_the_dataset_is_there(store: RunStore) -> None:
    assert list(store.entries()) == []
    assert {path.name for path in store.paths.root.iterdir() if path.is_file()} == {"events.log", "finished.json"}


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:-9] + b"X" + data[-8:]])
def test_a_damaged_file_is_named_and_not_read(store: RunStore, damage: object) -> None:  # R02
    path = store.data_files()[-1]
    path.chmod(0o600)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InvalidInput, match=path.name):
        [store.table(stage, "tokens") for stage in ("4", "8")]


def test_a_missing_file_is_named(store: RunStore) -> None:
    path = store.data_files()[-1]
    path.unlink()
    with pytest.raises(InvalidInput, match=f"{path.name}.*no such file"):
        [store.table(stage, "tokens") for stage in ("4", "8")]


def test_a_plan_of_many_parts_reads_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.plan.PART_UNITS", 4)
    store = complete(tmp_path, about=experiment(prompts=9))
    assert [len(path.read_bytes().splitlines()) for path in store.plan_paths("4")] == [4, 4, 1]
    assert [line["prompt_id"] for line in open_reader(store).planned("4")] == [f"p{number}" for number in range(9)]
    assert not store.orphans()


def test_a_reader_whose_plan_was_replaced_reads_the_new_one(tmp_path: Path) -> None:
    reader = open_reader(drive(tmp_path))
    before = reader.plan_paths("4")
    drive(tmp_path)
    assert not before[0].exists()
    assert len(reader.planned_keys("4")) == 6
    assert reader.plan_paths("4") != before


def test_parts_are_cut_by_rows_and_by_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.dataset.PART_ROWS", 4)
    about = experiment(prompts=9, batch=3)
    one = complete(tmp_path / "1", DirectedExecutor(workers_alive=1), about=about)
    other = complete(tmp_path / "2", DirectedExecutor(workers_alive=5, seed=1), about=about, group_seconds=60.0)
    for store in (one, other):
        mark = store.finished()
        assert mark is not None
        assert [part.rows for part in mark.parts if (part.stage, part.table) == ("4", "tokens")] == [4, 4, 1]
        assert [row["prompt_id"] for row in store.table("4", "sums").to_pylist()] == [f"p{number}" for number in range(9)]
    assert one.dataset_digest() == other.dataset_digest()


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"dataset_digest": 1}', "\xff"])
def test_a_mark_of_finishing_that_is_damaged_is_named(store: RunStore, content: str) -> None:
    store.paths.finished.unlink()
    store.paths.finished.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"finished\.json: .*allowed: what runner wrote"):
        open_reader(store).finished()


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", ".hidden", ""])
def test_neither_journal_nor_mark_leads_a_reader_out_of_the_run(tmp_path: Path, name: str) -> None:
    store = drive(tmp_path / "run")
    with pytest.raises(InvalidInput):
        store.append("plan", {"stage": "4", "files": [{"file": name, "sha256": "0", "units": 1}], "units": 1, "unplanned": 0})
    with pytest.raises(InvalidInput, match=r"journal: entry \d+: found no entry of kind plan"):
        open_reader(store).plan_paths("4")
    finished = complete(tmp_path / "finished")
    content = finished.paths.finished.read_text()
    finished.paths.finished.unlink()
    finished.paths.finished.write_text(content.replace('"table": "sums"', f'"table": "{name}"'))
    with pytest.raises(InvalidInput, match=r"finished\.json: found no parts or plans"):
        open_reader(finished).finished()


def test_a_stage_name_leads_no_writer_out_of_the_run(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(ValueError, match="cannot be part of a file name"):
        store.paths.plan("../8", 1, 0)


def test_a_stage_without_results_reads_as_an_empty_table(tmp_path: Path) -> None:
    assert open_store(tmp_path).table("4", "tokens").schema == TOKENS


def test_the_digest_tells_datasets_apart_and_not_histories(tmp_path: Path) -> None:
    one = complete(tmp_path / "1", DirectedExecutor(workers_alive=1))
    again = complete(tmp_path / "2", DirectedExecutor(workers_alive=4, seed=9), about=experiment(batch=1))
    other = complete(tmp_path / "3", about=experiment(prompts=5))
    assert one.dataset_digest() == again.dataset_digest() != other.dataset_digest()


class GivenTenure:
    """A tenure that is held, unless somebody looks and `lost` says otherwise."""

    def __init__(self, epoch: int, *, lost: bool = False) -> None:
        self.epoch = epoch
        self._lost = lost

    def require_held(self, *, look: bool = False) -> None:
        if look and self._lost:
            raise RunBusy("another driver works on the run")


def epochs(root: Path) -> list[int]:
    return [entry.epoch for entry in open_reader(RunStore(RunPaths(root), TinyProtocol().schemas())).entries()]


def test_a_driver_that_begins_after_its_successor_is_busy_and_leaves_no_trace(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.recover(GivenTenure(9))
    before = epochs(tmp_path)
    with pytest.raises(RunBusy):
        open_reader(store).recover(GivenTenure(8, lost=True))
    assert epochs(tmp_path) == before


def test_a_driver_that_is_overtaken_while_it_begins_is_busy_and_leaves_no_trace(tmp_path: Path) -> None:
    store = drive(tmp_path)

    class Overtaken(LocalStorage):
        """A successor begins in the middle of the first write."""

        def create(self, path: PurePath, data: bytes, *, read_only: bool = True) -> None:
            if max(epochs(tmp_path)) < 9:
                open_reader(store).recover(GivenTenure(9))
            super().create(path, data, read_only=read_only)

    with pytest.raises(RunBusy):
        RunStore(store.paths, store.schemas, Overtaken()).recover(GivenTenure(8))
    assert epochs(tmp_path)[-1] == 9
    assert epochs(tmp_path) == sorted(epochs(tmp_path))


def test_a_driver_whose_claims_were_removed_by_hand_goes_on(tmp_path: Path) -> None:
    store = drive(tmp_path)
    store.recover(GivenTenure(9))
    open_reader(store).recover(GivenTenure(1))
    assert epochs(tmp_path)[-2:] == [9, 10]

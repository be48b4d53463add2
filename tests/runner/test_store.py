"""Readers see what the logs name, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import TOKENS, DirectedExecutor, drive, experiment, open_store

from runner.store import Commit, RunStore
from schemas.errors import InvalidInput


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return drive(tmp_path)


def a_data_file(store: RunStore) -> Path:
    return sorted(store.paths.table("tokens").iterdir())[0]


def test_rows_come_in_plan_order_whatever_the_order_of_arrival(tmp_path: Path) -> None:
    store = drive(tmp_path, DirectedExecutor(workers_alive=5, seed=3), about=experiment(prompts=9, batch=1))
    arrived = [record["unit"] for record in store.commit_log("4").read().records]
    assert arrived != [line["unit"] for line in store.planned("4")]
    assert [row["prompt_id"] for row in store.table("4", "tokens").to_pylist()] == [f"p{number}" for number in range(9)]


def test_an_orphan_is_never_read_and_is_swept_by_the_next_driver(store: RunStore, tmp_path: Path) -> None:
    rows = store.table("4", "tokens")
    orphan = store.paths.table("tokens") / f"4-{'e' * 64}.parquet"
    orphan.write_bytes(a_data_file(store).read_bytes())
    torn = store.paths.table("tokens") / ".4-f.parquet.tmp"
    torn.write_bytes(b"PAR1")
    assert open_reader(store).table("4", "tokens") == rows
    assert store.orphans() == [torn, orphan]
    open_store(tmp_path)
    assert not orphan.exists()
    assert not torn.exists()


def open_reader(store: RunStore) -> RunStore:
    return RunStore(store.paths, store.schemas)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:-9] + b"X" + data[-8:]])
def test_a_damaged_file_is_named_and_not_read(store: RunStore, damage: object) -> None:  # R02
    path = a_data_file(store)
    path.chmod(0o600)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InvalidInput, match=path.name):
        [store.table(stage, "tokens") for stage in ("4", "8")]


def test_a_missing_file_is_named(store: RunStore) -> None:
    path = a_data_file(store)
    path.unlink()
    with pytest.raises(InvalidInput, match=f"{path.name}.*no such file"):
        [store.table(stage, "tokens") for stage in ("4", "8")]


def test_a_log_that_names_a_unit_twice_is_refused(store: RunStore) -> None:
    log = store.commit_log("4")
    log.append([log.read().records[0]])
    with pytest.raises(InvalidInput, match="for the second time"):
        open_reader(store).commits("4")


FILE = {"table": "tokens", "sha256": "0", "bytes": 1, "rows": 1}


@pytest.mark.parametrize(
    "record",
    [{}, *({"unit": "u"} | more for more in ({}, {"files": 1}, {"files": [None]}, {"files": [FILE | {"bytes": "1"}]}))],
)
def test_a_line_that_is_no_commit_is_named(store: RunStore, record: dict[str, object]) -> None:
    store.commit_log("4").append([record])
    lines = len(store.commit_log("4").read().records)
    with pytest.raises(InvalidInput, match=rf"4\.log: line {lines}: found no commit"):
        open_reader(store).commits("4")


def test_a_commit_without_a_table_is_named(store: RunStore) -> None:
    commit = next(iter(store.commits("4").values()))
    with pytest.raises(InvalidInput, match=r"4\.log: found no file of table tokens"):
        store.read("4", Commit(commit.unit, {}), "tokens")


FAILURE = {"unit": "u", "prompt_id": "p0", "kind": "error", "error": "an error", "detail": "", "strikes": 3}


@pytest.mark.parametrize("record", [{}, {"cleared": True}, {"unit": "u"}, FAILURE | {"more": 1}, FAILURE | {"strikes": "3"}])
def test_a_line_that_is_no_failure_is_named(store: RunStore, record: dict[str, object]) -> None:
    log = store.failure_log("4")
    log.create()
    log.append([FAILURE, record])
    with pytest.raises(InvalidInput, match=r"4\.log: line 2: found no failure"):
        store.failures("4")


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"dataset_digest": 1}', "\xff"])
def test_a_mark_of_finishing_that_is_damaged_is_named(store: RunStore, content: str) -> None:
    store.paths.finished.unlink(missing_ok=True)
    store.paths.finished.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"finished\.json: .*allowed: what runner wrote"):
        store.finished()


def test_a_log_cannot_lead_a_reader_out_of_the_run(store: RunStore) -> None:
    log = store.commit_log("4")
    record = dict(log.read().records[0])
    log.append([{**record, "unit": "../../../etc/passwd"}])
    with pytest.raises(InvalidInput, match="cannot be part of a file name"):
        open_reader(store).orphans()


def test_a_stage_without_results_reads_as_an_empty_table(tmp_path: Path) -> None:
    assert open_store(tmp_path).table("4", "tokens").schema == TOKENS


def test_the_digest_tells_datasets_apart_and_not_histories(tmp_path: Path) -> None:
    one = drive(tmp_path / "1", DirectedExecutor(workers_alive=1))
    again = drive(tmp_path / "2", DirectedExecutor(workers_alive=4, seed=9), about=experiment(batch=1))
    other = drive(tmp_path / "3", about=experiment(prompts=5))
    assert one.dataset_digest() == again.dataset_digest() != other.dataset_digest()

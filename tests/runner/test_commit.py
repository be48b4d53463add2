"""A unit is committed whole, once, and with the same bytes whoever computed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from tiny_run import SUMS, TOKENS, TinyProtocol, drive, execute, experiment, open_store

from runner.commit import commit
from runner.store import RunStore
from schemas.errors import ConformanceFinding
from schemas.unit import Unit, UnitResult


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = open_store(tmp_path)
    store.commit_log("4").create()
    return store


def units(store: RunStore) -> list[Unit]:
    return TinyProtocol().units(experiment(), "4", store)


def test_a_committed_unit_has_one_file_a_table_and_one_line(store: RunStore) -> None:
    results = execute(None, units(store)[:1])
    commit(store, "4", results)
    key = results[0].key
    assert store.paths.data("tokens", "4", key).exists()
    assert store.paths.data("sums", "4", key).exists()
    assert [record["unit"] for record in store.commit_log("4").read().records] == [key]


def test_a_commit_is_seen_by_a_reader_that_opens_the_run_later(store: RunStore, tmp_path: Path) -> None:
    results = execute(None, units(store))
    commit(store, "4", results)
    assert open_store(tmp_path).units("4") == {result.key for result in results}


def test_the_same_result_again_is_no_second_commit(store: RunStore) -> None:  # R01
    results = execute(None, units(store)[:2])
    commit(store, "4", results)
    outcome = commit(store, "4", results)
    assert len(outcome.repeated) == 2
    assert not outcome.new
    assert len(store.commit_log("4").read().records) == 2


def test_a_result_that_stands_twice_in_a_lease_is_committed_once(store: RunStore) -> None:
    result = execute(None, units(store)[:1])
    assert len(commit(store, "4", [*result, *result]).new) == 1


def test_other_bytes_for_a_committed_unit_are_kept_and_change_nothing(store: RunStore) -> None:
    result = execute(None, units(store)[:1])[0]
    commit(store, "4", [result])
    before = store.paths.data("sums", "4", result.key).read_bytes()
    other = result.tables["sums"].set_column(2, SUMS.field("total"), pa.array([-1], pa.int64()))
    with pytest.raises(ConformanceFinding, match="other bytes in sums: committed SHA-256"):
        commit(store, "4", [UnitResult(result.key, {**result.tables, "sums": other})])
    assert store.paths.data("sums", "4", result.key).read_bytes() == before
    assert [path.name for path in store.findings()] == [f"sums-4-{result.key}.parquet"]


def test_a_finding_keeps_the_whole_lease_out(store: RunStore) -> None:
    first, second = execute(None, units(store)[:2])
    commit(store, "4", [first])
    drifted = execute(None, [replace(units(store)[0], payload={"text": "drifted"})])[0]
    with pytest.raises(ConformanceFinding):
        commit(store, "4", [second, drifted])
    assert store.units("4") == {first.key}


def test_how_rows_were_gathered_does_not_show_in_the_file(store: RunStore, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([{"prompt_id": f"p{n}", "horizon": 4, "tokens": [n]} for n in range(100)], schema=TOKENS)
    pieces = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 50), rows.slice(57)])
    sums = execute(None, units(store)[:1])[0].tables["sums"]
    commit(store, "4", [UnitResult("a", {"tokens": rows, "sums": sums}), UnitResult("b", {"tokens": pieces, "sums": sums})])
    assert store.paths.data("tokens", "4", "a").read_bytes() == store.paths.data("tokens", "4", "b").read_bytes()


def test_a_table_that_breaks_its_schema_is_a_bug_and_not_committed(store: RunStore) -> None:
    result = execute(None, units(store)[:1])[0]
    renamed = result.tables["sums"].replace_schema_metadata({"schema_version": "2"})
    with pytest.raises(ValueError, match="is not of the declared schema"):
        commit(store, "4", [UnitResult(result.key, {**result.tables, "sums": renamed})])
    with pytest.raises(ValueError, match="the protocol declares"):
        commit(store, "4", [UnitResult(result.key, {"sums": result.tables["sums"]})])
    assert not store.units("4")


def test_a_file_in_the_way_does_not_matter(store: RunStore) -> None:
    """A driver that was killed after a rename left a file under the very name."""
    result = execute(None, units(store)[:1])[0]
    path = store.paths.data("tokens", "4", result.key)
    path.parent.mkdir()
    path.write_bytes(b"torn")
    commit(store, "4", [result])
    assert store.table("4", "tokens").num_rows == 0  # not planned, so no part of the dataset
    assert store.read("4", store.commits("4")[result.key], "tokens") == result.tables["tokens"]


def test_a_finished_dataset_is_read_whole_by_pyarrow(tmp_path: Path) -> None:
    store = drive(tmp_path)
    rows = pyarrow.dataset.dataset(store.paths.table("tokens")).to_table()
    assert rows.num_rows == len(store.units("4")) + len(store.units("8"))

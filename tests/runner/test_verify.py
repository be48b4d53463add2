"""Verify finds what is wrong with a run, and finds nothing wrong with a right one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tiny_run import DirectedExecutor, TinyProtocol, drive, execute, experiment

from runner import parquet
from runner.commit import commit
from runner.plan import PlannedUnit, write_plan
from runner.store import Commit, CommittedFile, RunStore
from runner.verdict import finish
from runner.verify import Verification, verify
from schemas.unit import Unit


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = drive(tmp_path)
    finish(store, ("4", "8"))
    return store


def verified(store: RunStore) -> Verification:
    return verify(RunStore(store.paths, store.schemas), TinyProtocol(), experiment())


def test_a_right_run_is_clean(store: RunStore) -> None:
    result = verified(store)
    assert result.clean
    assert result.units == len(store.units("4")) + len(store.units("8"))
    assert result.files == 2 * result.units
    assert result.digest == store.dataset_digest()


def rewrite(path: Path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def flip_a_bit(store: RunStore) -> None:
    path = next(iter(sorted(store.paths.table("tokens").iterdir())))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    rewrite(path, bytes(data))


def remove_a_file(store: RunStore) -> None:
    next(iter(sorted(store.paths.table("sums").iterdir()))).unlink()


def change_a_meaning(store: RunStore) -> None:
    path = store.paths.plan("4")
    path.write_text(path.read_text().replace('"horizon":4', '"horizon":5', 1))


def drop_a_planned_unit(store: RunStore) -> None:
    path = store.paths.plan("4")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def tear_a_plan(store: RunStore) -> None:
    path = store.paths.plan("8")
    path.write_text(path.read_text().replace("}", "", 1))


def damage_a_log(store: RunStore) -> None:
    path = store.paths.commit_log("4")
    path.write_bytes(path.read_bytes().replace(b'"rows":1', b'"rows":2', 1))


def lose_the_last_commit(store: RunStore) -> None:
    path = store.paths.commit_log("4")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def replace_a_file_and_its_line(store: RunStore) -> None:
    """Rows that another release wrote: the line fits the file, the schema version is another."""
    log = store.commit_log("4")
    records = [Commit.from_record(record) for record in log.read().records]
    table = store.read("4", records[0], "sums").replace_schema_metadata({"schema_version": "2", "key": "prompt_id,horizon"})
    forge(store, records, parquet.to_bytes(table))


def double_a_row(store: RunStore) -> None:
    records = [Commit.from_record(record) for record in store.commit_log("4").read().records]
    table = store.read("4", records[0], "sums")
    forge(store, records, parquet.to_bytes(pa.concat_tables([table, table])))


def forge(store: RunStore, records: list[Commit], data: bytes) -> None:
    rows = parquet.from_bytes(data).num_rows
    forged = CommittedFile("sums", hashlib.sha256(data).hexdigest(), len(data), rows)
    records[0] = Commit(records[0].unit, {**records[0].files, "sums": forged})
    rewrite(store.paths.data("sums", "4", records[0].unit), data)
    log = store.commit_log("4")
    log.path.write_bytes(b"")
    log.append(record.as_record() for record in records)


def keep_a_finding(store: RunStore) -> None:
    store.paths.finding("sums", "4", "a" * 64).write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (flip_a_bit, "SHA-256"),
        (remove_a_file, "no such file"),
        (change_a_meaning, "has a pre-image with the key"),
        (drop_a_planned_unit, "is committed and not planned"),
        (damage_a_log, "a damaged line before whole ones"),
        (tear_a_plan, "a damaged plan"),
        (lose_the_last_commit, "the dataset's digest was"),
        (replace_a_file_and_its_line, "not of its schema"),
        (double_a_row, "two rows with equal prompt_id, horizon"),
        (keep_a_finding, "gave other bytes when it was executed again"),
    ],
)
def test_damage_is_found_and_named(store: RunStore, damage: Callable[[RunStore], None], fault: str) -> None:
    damage(store)
    result = verified(store)
    assert not result.clean
    assert any(fault in line for line in result.faults), result.faults


def test_a_run_is_held_to_what_its_record_gives(store: RunStore) -> None:
    now = verify(RunStore(store.paths, store.schemas), TinyProtocol(edited=True), experiment())
    assert not now.clean
    for words in ("is planned, and run.json does not give it", "is not planned, and run.json gives it"):
        assert any(words in line for line in now.faults), now.faults


def test_a_plan_in_another_order_is_found(store: RunStore) -> None:
    path = store.paths.plan("4")
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert any("another order" in line for line in verified(store).faults)


def test_a_stage_that_the_job_does_not_have_is_found(store: RunStore) -> None:
    store.paths.plan("16").write_bytes(store.paths.plan("8").read_bytes())
    assert any("has no stage 16" in line for line in verified(store).faults)


def test_units_that_a_retry_adds_are_no_fault_before_they_are_planned(tmp_path: Path) -> None:
    trouble = DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id in even else None)
    even = {unit.prompt_id for unit in TinyProtocol().units(experiment(), "8", drive(tmp_path / "whole"))}
    store = drive(tmp_path / "run", trouble)
    failures = store.failures("4")
    store.failure_log("4").append([{"unit": unit, "cleared": True} for unit in failures])
    todo = [unit for unit in TinyProtocol().units(experiment(), "4", store) if unit.key in failures]
    commit(store, "4", execute(None, todo))
    assert len(TinyProtocol().units(experiment(), "8", store)) > len(store.planned("8"))
    assert verified(store).clean


def test_a_stage_that_contradicts_an_earlier_one_is_found(tmp_path: Path) -> None:
    store = drive(tmp_path)
    unit = next(one for one in TinyProtocol().units(experiment(), "8", store))
    drifted = Unit("8", unit.prompt_id, {**unit.meaning, "again": True}, {"text": "drifted"})
    commit(store, "8", execute(None, [drifted]))
    write_plan(store, "8", [PlannedUnit(drifted, "new")])
    keep_only(store, drifted.key)
    assert any("other first tokens" in line for line in verified(store).faults)


def keep_only(store: RunStore, unit: str) -> None:
    """Make of stage 8 what this one commit says."""
    log = store.commit_log("8")
    records = [record for record in log.read().records if record["unit"] == unit]
    log.path.write_bytes(b"")
    log.append(records)


def test_what_a_kill_left_is_listed_and_no_fault(store: RunStore) -> None:
    (store.paths.table("tokens") / ".4-x.parquet.tmp").write_bytes(b"PAR1")
    with store.paths.failure_log("4").open("ab") as log:
        log.write(b'{"record":{"un')
    result = verified(store)
    assert result.clean
    assert len(result.leftovers) == 2

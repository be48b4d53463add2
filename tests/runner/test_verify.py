"""Verify finds what is wrong with a run, and finds nothing wrong with a right one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tiny_run import STAGES, DirectedExecutor, TinyProtocol, complete, drive, execute, experiment, open_reader, open_store

from runner import parquet
from runner.commit import Committer
from runner.dataset import Part, digest_of, write_parts
from runner.mark import Mark
from runner.plan import PlannedUnit, write_plan
from runner.retry_request import RetryRequest
from runner.store import RunStore
from runner.verify import Verification, verify
from schemas.unit import Unit


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return complete(tmp_path)


def verified(store: RunStore) -> Verification:
    return verify(open_reader(store), TinyProtocol(), experiment())


def test_a_right_run_is_clean(store: RunStore) -> None:
    result = verified(store)
    assert result.clean
    assert result.units == len(store.units("4")) + len(store.units("8"))
    assert result.files == len(store.data_files()) == 4
    assert result.digest == store.dataset_digest() is not None


def test_a_run_that_is_not_finished_is_clean_and_has_no_digest(tmp_path: Path) -> None:
    store = drive(tmp_path)
    result = verified(store)
    assert result.clean
    assert result.units == len(store.units("4")) + len(store.units("8"))
    assert result.files == store.index().last
    assert result.digest is None


def rewrite(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def flip_a_bit(store: RunStore) -> None:
    path = store.data_files()[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    rewrite(path, bytes(data))


def remove_a_file(store: RunStore) -> None:
    store.data_files()[0].unlink()


def add_a_file(store: RunStore) -> None:
    path = store.data_files()[0]
    path.with_name("4-00001-0123456789abcdef.parquet").write_bytes(path.read_bytes())


def change_a_meaning(store: RunStore) -> None:
    path = store.plan_paths("4")[0]
    rewrite(path, path.read_bytes().replace(b'"horizon":4', b'"horizon":5', 1))


def change_the_digest(store: RunStore) -> None:
    mark = store.finished()
    assert mark is not None
    rewrite(store.paths.finished, replace(mark, dataset_digest="0" * 64).to_bytes())


def remark(store: RunStore, parts: list[Part]) -> None:
    """Make the mark fit what was forged."""
    mark = store.finished()
    assert mark is not None
    rewrite(store.paths.finished, Mark(digest_of(parts), mark.plans, parts, mark.finished).to_bytes())


def forge(store: RunStore, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows of a table under a mark that fits them."""
    mark = store.finished()
    assert mark is not None
    rows = change(store.table("4", "sums"))
    kept = []
    for part in mark.parts:
        if (part.stage, part.table) == ("4", "sums"):
            part.path(store.paths).unlink()
        else:
            kept.append(part)
    remark(store, [*kept, *write_parts(store.storage, store.paths, stage="4", table="sums", schema=rows.schema, rows=[rows])])


def write_another_schema_version(store: RunStore) -> None:
    forge(store, lambda rows: rows.replace_schema_metadata({"schema_version": "2", "key": "prompt_id,horizon"}))


def double_a_row(store: RunStore) -> None:
    forge(store, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))


def put_file(store: RunStore, data: bytes) -> None:
    """Other bytes in place of a part's file, under a mark that names them."""
    forge(store, lambda rows: rows)
    mark = open_reader(store).finished()
    assert mark is not None
    [part] = [one for one in mark.parts if (one.stage, one.table) == ("4", "sums")]
    new = replace(part, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    part.path(store.paths).unlink()
    new.path(store.paths).write_bytes(data)
    remark(store, [new if one == part else one for one in mark.parts])


def write_no_parquet(store: RunStore) -> None:
    put_file(store, b"PAR1 and no more")


def write_another_type(store: RunStore) -> None:
    rows = store.table("4", "sums")
    put_file(store, parquet.to_bytes(rows.cast(rows.schema.set(0, rows.schema.field(0).with_type(pa.large_string())))))


def mark_other_rows(store: RunStore) -> None:
    mark = store.finished()
    assert mark is not None
    remark(store, [replace(mark.parts[0], rows_sha256="0" * 64), *mark.parts[1:]])


def keep_a_finding(store: RunStore) -> None:
    store.storage.replace(store.paths.finding("sums", "4", "a" * 64), b"")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (flip_a_bit, "SHA-256"),
        (remove_a_file, "no such file"),
        (add_a_file, "was not there"),
        (change_a_meaning, "a damaged plan"),
        (change_the_digest, "the dataset's digest was"),
        (write_another_schema_version, "not of its schema"),
        (write_another_type, "not of its schema"),
        (double_a_row, "two rows with equal prompt_id, horizon"),
        (write_no_parquet, "no Parquet"),
        (mark_other_rows, "rows with the SHA-256"),
        (keep_a_finding, "gave other bytes when it was executed again"),
    ],
)
def test_damage_is_found_and_named(store: RunStore, damage: Callable[[RunStore], None], fault: str) -> None:
    damage(store)
    result = verified(store)
    assert not result.clean
    assert any(fault in line for line in result.faults), result.faults


def test_a_damaged_entry_is_found_and_named(tmp_path: Path) -> None:
    store = drive(tmp_path)
    path = store.paths.entry(3)
    data = path.read_bytes()
    rewrite(path, data[:-1] + bytes([data[-1] ^ 1]))
    assert any("000000003.entry" in line and "SHA-256" in line for line in verified(store).faults)


def test_a_unit_that_was_not_planned_is_found(tmp_path: Path) -> None:
    store = drive(tmp_path)
    commit(store, "8", [Unit("8", "p0", {"horizon": 8, "another": True}, {"text": "another"})])
    assert any("is committed and not planned" in line for line in verified(store).faults)


def commit(store: RunStore, stage: str, units: list[Unit]) -> None:
    committer = Committer(store)
    committer.add(stage, execute(None, units))
    committer.commit()


def test_a_run_is_held_to_what_its_record_gives(store: RunStore) -> None:
    now = verify(open_reader(store), TinyProtocol(edited=True), experiment())
    assert not now.clean
    for words in ("is planned, and run.json does not give it", "is not planned, and run.json gives it"):
        assert any(words in line for line in now.faults), now.faults


def replan(store: RunStore, stage: str, change: Callable[[list[Unit]], list[Unit]]) -> None:
    units = change(TinyProtocol().units(experiment(), stage, store))
    write_plan(store, stage, [PlannedUnit(unit, "new") for unit in units])


def test_a_pre_image_that_is_not_the_keys_is_found(tmp_path: Path) -> None:
    store = drive(tmp_path)

    def forged(units: list[Unit]) -> list[Unit]:
        object.__setattr__(units[0], "meaning", {**units[0].meaning, "horizon": 5} if units[0].key else {})
        return units

    replan(store, "4", forged)
    assert any("has a pre-image with the key" in line for line in verified(store).faults)


def test_a_plan_in_another_order_is_found(tmp_path: Path) -> None:
    store = drive(tmp_path)
    replan(store, "4", lambda units: units[::-1])
    assert any("another order" in line for line in verified(store).faults)


def test_a_stage_that_the_job_does_not_have_is_found(tmp_path: Path) -> None:
    store = drive(tmp_path)
    write_plan(store, "16", [])
    assert any("has no stage 16" in line for line in verified(store).faults)


def test_units_that_a_retry_adds_are_no_fault_before_they_are_planned(tmp_path: Path) -> None:
    trouble = DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id in even else None)
    even = {unit.prompt_id for unit in TinyProtocol().units(experiment(), "8", drive(tmp_path / "whole"))}
    store = drive(tmp_path / "run", trouble)
    failures = store.failures("4")
    RetryRequest(store).clear(STAGES)
    commit(store, "4", [unit for unit in TinyProtocol().units(experiment(), "4", store) if unit.key in failures])
    assert len(TinyProtocol().units(experiment(), "8", store)) > len(store.planned_keys("8"))
    assert verified(store).clean


def test_a_stage_that_contradicts_an_earlier_one_is_found(tmp_path: Path) -> None:
    """A unit of stage 8 that was worked off by arithmetic of another kind."""

    def drifting(session: object, units: list[Unit]) -> object:
        return execute(session, [replace(u, payload={"text": "drifted"}) if u.stage == "8" else u for u in units])

    class Blind(TinyProtocol):
        def check(self, *about: object) -> list[str]:
            return []

    store = complete(tmp_path, DirectedExecutor(work=drifting), protocol=Blind())
    assert any("other first tokens" in line for line in verified(store).faults)


def test_what_a_kill_left_is_listed_and_no_fault(tmp_path: Path) -> None:
    store = drive(tmp_path)
    (store.paths.journal / ".000000009.entry.0123.tmp").write_bytes(b"{")
    store.paths.plan("4", 99, 0).write_bytes(b"{}")
    result = verified(store)
    assert result.clean
    assert len(result.leftovers) == 2
    finished = complete(tmp_path)
    finished.paths.journal.joinpath("000000001.entry").write_bytes(b"left by a kill after the mark")
    result = verified(finished)
    assert result.clean
    assert len(result.leftovers) == 1


def test_stages_are_those_of_the_protocol(store: RunStore) -> None:
    assert store.stages_on_disk() == sorted(STAGES)
    assert open_store(store.paths.root).stages_on_disk() == sorted(STAGES)

"""A unit is committed whole, once, and with the same bytes whoever computed it and whatever came with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_run import (
    STAGES,
    SUMS,
    TOKENS,
    DirectedExecutor,
    TinyProtocol,
    complete,
    dataset,
    execute,
    experiment,
    open_reader,
    open_store,
)

from runner import commit
from runner.commit import Committer
from runner.journal import encoded
from runner.plan import PlannedUnit, write_plan
from runner.store import RunStore
from schemas.errors import ConformanceFinding
from schemas.unit import Unit, UnitResult


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = open_store(tmp_path)
    write_plan(store, "4", [PlannedUnit(unit, "new") for unit in units(store)])
    return store


def units(store: RunStore) -> list[Unit]:
    return TinyProtocol().units(experiment(), "4", store)


def commit_now(store: RunStore, results: list[UnitResult]) -> int:
    committer = Committer(store)
    committer.add("4", results)
    return len(committer.commit())


def test_what_arrived_since_the_last_commit_is_one_entry(store: RunStore) -> None:
    committer = Committer(store)
    for unit in units(store)[:3]:
        committer.add("4", execute(None, [unit]))
    before = store.index().last
    assert len(committer.commit()) == 3
    assert store.index().last == before + 1
    assert open_reader(store).units("4") == {unit.key for unit in units(store)[:3]}


def test_what_waits_for_its_group_is_not_done(store: RunStore) -> None:
    committer = Committer(store)
    committer.add("4", execute(None, units(store)))
    assert not store.units("4")
    assert committer.commit() == {unit.key for unit in units(store)}
    assert not committer.commit()


def test_a_group_waits_no_longer_than_it_may(store: RunStore) -> None:
    now = 100.0
    committer = Committer(store, group_seconds=2.0, clock=lambda: now)
    assert not committer.due()
    committer.add("4", execute(None, units(store)[:1]))
    now = 101.9
    committer.add("4", execute(None, units(store)[1:2]))
    assert not committer.due()
    now = 102.0
    assert committer.due()


def test_what_took_longer_than_a_group_may_wait_is_committed_at_once(store: RunStore) -> None:
    committer = Committer(store, group_seconds=2.0, clock=lambda: 100.0)
    committer.add("4", execute(None, units(store)[:1]), seconds=0.5)
    assert not committer.due()
    committer.add("4", execute(None, units(store)[1:2]), seconds=2.0)
    assert committer.due()


def test_a_group_that_is_large_enough_does_not_wait(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("GROUP_BYTES", "GROUP_UNITS"):
        with monkeypatch.context() as patched:
            patched.setattr(commit, limit, 6)
            committer = Committer(store, group_seconds=60.0)
            committer.add("4", execute(None, units(store)))
            assert committer.due()
        assert not committer.due()


def test_the_same_result_again_is_no_second_commit(store: RunStore) -> None:  # R01
    results = execute(None, units(store)[:2])
    assert commit_now(store, results) == 2
    assert commit_now(store, results) == 0
    assert len(open_reader(store).units("4")) == 2


def test_a_result_that_stands_twice_in_a_group_is_committed_once(store: RunStore) -> None:
    result = execute(None, units(store)[:1])
    committer = Committer(store)
    committer.add("4", [*result, *result])
    committer.add("4", result)
    assert len(committer.commit()) == 1


def drifted(result: UnitResult) -> UnitResult:
    other = result.tables["sums"].set_column(2, SUMS.field("total"), pa.array([-1], pa.int64()))
    return UnitResult(result.key, {**result.tables, "sums": other})


def test_other_bytes_for_a_committed_unit_are_kept_and_change_nothing(store: RunStore) -> None:
    result = execute(None, units(store)[:1])[0]
    commit_now(store, [result])
    before = store.table("4", "sums")
    with pytest.raises(ConformanceFinding, match="other bytes in sums: committed SHA-256"):
        commit_now(store, [drifted(result)])
    assert open_reader(store).table("4", "sums") == before
    assert [path.name for path in store.findings()] == [f"sums-4-{result.key}.parquet"]


def test_other_bytes_for_a_unit_that_waits_are_found_too(store: RunStore) -> None:
    first, second = execute(None, units(store)[:2])
    committer = Committer(store)
    committer.add("4", [first, second])
    with pytest.raises(ConformanceFinding, match="other bytes in sums"):
        committer.add("4", [drifted(first)])
    assert open_reader(store).units("4") == {first.key, second.key}


def test_a_finding_keeps_its_whole_lease_out(store: RunStore) -> None:
    first, second = execute(None, units(store)[:2])
    commit_now(store, [first])
    other = execute(None, [replace(units(store)[0], payload={"text": "drifted"})])[0]
    committer = Committer(store)
    with pytest.raises(ConformanceFinding):
        committer.add("4", [second, other])
    committer.commit()
    assert store.units("4") == {first.key}


def test_what_counts_for_nothing_is_compared_and_not_committed(store: RunStore) -> None:
    first, second, third = execute(None, units(store)[:3])
    commit_now(store, [first])
    committer = Committer(store)
    committer.add("4", [second])
    committer.compare("4", [first, second, third])
    assert committer.commit() == {second.key}
    for known in (first, second):
        with pytest.raises(ConformanceFinding, match="other bytes in sums"):
            committer.compare("4", [third, drifted(known)])
    committer.compare("8", [drifted(first)])
    assert store.units("4") == {first.key, second.key}


def test_a_table_that_breaks_its_schema_is_a_bug_and_not_committed(store: RunStore) -> None:
    result = execute(None, units(store)[:1])[0]
    renamed = result.tables["sums"].replace_schema_metadata({"schema_version": "2"})
    with pytest.raises(ValueError, match="is not of the declared schema"):
        commit_now(store, [UnitResult(result.key, {**result.tables, "sums": renamed})])
    with pytest.raises(ValueError, match="the protocol declares"):
        commit_now(store, [UnitResult(result.key, {"sums": result.tables["sums"]})])
    assert not store.units("4")


def test_units_without_rows_are_units(store: RunStore) -> None:
    results = [UnitResult(unit.key, {"tokens": TOKENS.empty_table(), "sums": SUMS.empty_table()}) for unit in units(store)]
    commit_now(store, results)
    assert len(open_reader(store).units("4")) == 6
    assert open_reader(store).table("4", "tokens") == TOKENS.empty_table()


def test_how_rows_were_gathered_does_not_show_in_an_entry() -> None:
    rows = pa.Table.from_pylist([{"prompt_id": f"p{n}", "horizon": 4, "tokens": [n]} for n in range(100)], schema=TOKENS)
    pieces = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 50), rows.slice(57)])
    assert encoded({"tokens": [rows]}) == encoded({"tokens": [pieces]})


@given(
    executor=st.builds(DirectedExecutor, workers_alive=st.integers(1, 5), seed=st.integers(0, 2**32), copies=st.integers(1, 2)),
    batch=st.integers(1, 7),
    group_seconds=st.sampled_from([0.0, 0.001, 60.0]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_dataset_does_not_depend_on_groups(
    tmp_path_factory: pytest.TempPathFactory, executor: DirectedExecutor, batch: int, group_seconds: float
) -> None:
    alone = complete(tmp_path_factory.mktemp("alone"), DirectedExecutor(workers_alive=1), about=experiment(batch=1))
    grouped = complete(tmp_path_factory.mktemp("grouped"), executor, about=experiment(batch=batch), group_seconds=group_seconds)
    assert dataset(grouped) == dataset(alone)


def test_a_finished_dataset_is_read_whole_by_pyarrow(tmp_path: Path) -> None:
    store = complete(tmp_path)
    rows = pyarrow.dataset.dataset(store.paths.table("tokens")).to_table()
    assert rows.num_rows == sum(len(store.units(stage)) for stage in STAGES)

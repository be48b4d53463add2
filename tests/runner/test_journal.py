"""Numbered entries: whole, in order, each written by one driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_run import TinyProtocol, execute, experiment, open_reader, open_store

from runner.checked_json import from_line, to_line
from runner.commit import Committer
from runner.store import RunStore
from schemas.errors import InvalidInput, RunBusy


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Entries: begin, units, units."""
    store = open_store(tmp_path)
    units = TinyProtocol().units(experiment(), "4", store)
    for some in (units[:2], units[2:]):
        committer = Committer(store)
        committer.add("4", execute(None, some))
        committer.commit()
    return store


def rewrite(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def read_all(store: RunStore) -> None:
    for entry in open_reader(store).entries():
        store.check_entry(entry)


def test_entries_are_read_in_order(store: RunStore) -> None:
    assert [(entry.number, entry.kind, entry.epoch) for entry in open_reader(store).entries()] == [
        (1, "begin", 1),
        (2, "units", 1),
        (3, "units", 1),
    ]


def test_a_reader_sees_what_was_added(store: RunStore) -> None:
    reader = open_reader(store)
    assert not reader.failures("4")
    assert reader.index().last == 3
    store.append("cleared", {"stage": "4", "units": []})
    reader.refresh()
    assert reader.index().last == 4


@given(data=st.data())
def test_no_changed_byte_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    store = open_store(tmp_path_factory.mktemp("run"))
    committer = Committer(store)
    committer.add("4", execute(None, TinyProtocol().units(experiment(), "4", store)))
    committer.commit()
    path = store.paths.entry(2)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    rewrite(path, bytes(content))
    with pytest.raises(InvalidInput, match=r"000000002\.entry"):
        read_all(store)


def test_an_entry_cut_at_any_byte_is_named(store: RunStore) -> None:
    path = store.paths.entry(3)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        rewrite(path, whole[:length])
        with pytest.raises(InvalidInput, match=r"000000003\.entry"):
            read_all(store)


def test_a_missing_entry_is_named(store: RunStore) -> None:
    store.paths.entry(2).unlink()
    with pytest.raises(InvalidInput, match=r"journal: found 000000003\.entry, allowed: 000000002\.entry"):
        open_reader(store).units("4")


HEAD = {"epoch": 1, "kind": "units", "stage": "4", "units": ["u"], "tables": {}}
PLAN = {"epoch": 1, "kind": "plan", "stage": "4", "files": [], "units": 1, "unplanned": 0}
TABLE = {"schema_version": "1", "rows": [1], "raw_bytes": 1, "bytes": 1, "sha256": "0"}


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"epoch": 1}, "kind None of epoch 1"),
        ({"epoch": "1", "kind": "begin"}, "kind begin of epoch 1"),
        (HEAD | {"units": 1}, "units without their tables"),
        (HEAD | {"tables": {"tokens": {}}}, "units without their tables"),
        (HEAD | {"tables": {"tokens": TABLE | {"rows": [1, 1]}}}, "units without their tables"),
        (HEAD | {"tables": {"tokens": TABLE | {"raw_bytes": 10**12}}}, "units without their tables"),
        (HEAD | {"epoch": 0}, "epoch 0 after epoch 1"),
        ({"epoch": 1, "kind": "units", "units": [], "tables": {}}, "no entry of kind units"),
        ({"epoch": 1, "kind": "plan", "stage": "4"}, "no entry of kind plan"),
        (PLAN | {"files": [{"file": "../x", "sha256": "", "units": 1}]}, "no entry of kind plan"),
        (PLAN | {"files": [{"file": "4-1.jsonl", "sha256": "", "units": 2}]}, "no entry of kind plan"),
        (PLAN | {"units": "1"}, "no entry of kind plan"),
        (
            PLAN | {"files": [{"file": 1, "sha256": "", "units": 1}]},
            "no entry of kind plan",
        ),
        ({"epoch": 1, "kind": "failure", "stage": "4", "failure": {"unit": "u"}}, "no entry of kind failure"),
        ({"epoch": 1, "kind": "cleared", "stage": "4"}, "no entry of kind cleared"),
        ({"epoch": 1, "kind": "cleared", "stage": ["4"], "units": []}, "no entry of kind cleared"),
    ],
)
def test_an_entry_that_says_nothing_is_named(store: RunStore, record: dict[str, object], found: str) -> None:
    store.paths.entry(4).write_bytes(to_line(record))
    with pytest.raises(InvalidInput, match=found):
        open_reader(store).units("4")


def test_a_unit_that_stands_twice_is_named(store: RunStore) -> None:
    rewrite(store.paths.entry(4), store.paths.entry(3).read_bytes())
    with pytest.raises(InvalidInput, match=r"entry 4: found unit .* for the second time"):
        open_reader(store).units("4")


def test_rows_of_another_schema_version_are_not_read(store: RunStore) -> None:
    path = store.paths.entry(3)
    line, _, payload = path.read_bytes().partition(b"\n")
    record = dict(from_line(line + b"\n") or {})
    record["tables"] = {**record["tables"], "sums": record["tables"]["sums"] | {"schema_version": "2"}}
    rewrite(path, to_line(record) + payload)
    entry = [*store.entries()][-1]
    with pytest.raises(InvalidInput, match="schema version 2"):
        store.check_entry(entry)


def test_a_driver_that_was_given_up_adds_nothing_more(store: RunStore, tmp_path: Path) -> None:
    """It sleeps between its last look at its claim and its write; meanwhile another one took the run over."""
    units = TinyProtocol().units(experiment(prompts=7), "4", store)
    late = Committer(store)
    late.add("4", execute(None, units[6:]))
    open_store(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunBusy, match="another driver has taken this run over"):
        late.commit()
    assert sorted(tmp_path.rglob("*")) == before
    assert len(open_reader(store).units("4")) == 6


def test_a_commit_that_came_just_before_the_takeover_counts(store: RunStore, tmp_path: Path) -> None:
    """The driver that takes over has looked already when the one that was given up writes its last entry."""
    late = open_reader(store)
    late.recover()
    new = open_reader(store)
    new.index()
    committer = Committer(late)
    committer.add("4", execute(None, TinyProtocol().units(experiment(prompts=7), "4", store)[6:]))
    committer.commit()
    new.recover()
    assert len(new.units("4")) == 7
    assert new.index().epoch == 3

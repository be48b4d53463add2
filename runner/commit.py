"""Commit of results: after `commit` returns a unit is done for good, before its log line is whole it never happened.

Data files first, each whole and durable, then one line in the stage's commit log that names them all: a reader sees
all tables of a unit or none. A second result for a committed unit (a retry whose first answer arrived after all, a
host that was only slow) must be the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from runner import parquet
from runner.disk import COMMITTED_MODE, make_directories, put_files
from runner.store import Commit, CommittedFile, RunStore
from schemas.errors import ConformanceFinding
from schemas.unit import UnitResult


@dataclass(frozen=True)
class CommitOutcome:
    """new: committed now. repeated: were committed before, with the same bytes."""

    new: Sequence[Commit]
    repeated: Sequence[Commit]


def commit(store: RunStore, stage: str, results: Sequence[UnitResult]) -> CommitOutcome:
    """Commit the results of one lease, together: one directory fsync a table and one log append, whatever the number of units.

    Raises ConformanceFinding when a unit is committed already with other bytes; its second result is kept under findings/, and
    nothing of the lease is committed.
    """
    committed = store.commits(stage)
    new: dict[str, Commit] = {}
    repeated: list[Commit] = []
    files: list[tuple[Path, bytes]] = []
    for result in results:
        contents = {name: parquet.to_bytes(_checked(store, result, name)) for name in sorted(store.schemas)}
        record = Commit(result.key, {name: _describe(name, data, result) for name, data in contents.items()})
        before = committed.get(result.key) or new.get(result.key)
        if before is None:
            new[result.key] = record
            files += [(store.paths.data(name, stage, result.key), data) for name, data in contents.items()]
        elif before == record:
            repeated.append(record)
        else:
            raise _finding(store, stage, before, record, contents)
    if new:
        make_directories(store.disk, *{path.parent for path, _ in files})
        put_files(store.disk, files, COMMITTED_MODE)
        store.commit_log(stage).append(record.as_record() for record in new.values())
        committed.update(new)
    return CommitOutcome(tuple(new.values()), tuple(repeated))


def _checked(store: RunStore, result: UnitResult, name: str) -> pa.Table:
    """The result's table of this name; ValueError where the protocol broke its own schema: a bug, not a user's mistake."""
    if set(result.tables) != set(store.schemas):
        raise ValueError(f"unit {result.key}: tables {sorted(result.tables)}, the protocol declares {sorted(store.schemas)}")
    table = result.tables[name]
    if not table.schema.equals(store.schemas[name], check_metadata=True):
        raise ValueError(f"unit {result.key}: table {name} is not of the declared schema:\n{table.schema}\n{store.schemas[name]}")
    return table


def _describe(name: str, data: bytes, result: UnitResult) -> CommittedFile:
    return CommittedFile(name, hashlib.sha256(data).hexdigest(), len(data), result.tables[name].num_rows)


def _finding(store: RunStore, stage: str, before: Commit, second: Commit, contents: dict[str, bytes]) -> ConformanceFinding:
    differing = sorted(name for name in contents if before.files[name] != second.files[name])
    evidence = [(store.paths.finding(name, stage, second.unit), contents[name]) for name in differing]
    put_files(store.disk, evidence, COMMITTED_MODE)
    name = differing[0]
    return ConformanceFinding(
        f"stage {stage}, unit {second.unit}: executed again it gave other bytes in {', '.join(differing)}: "
        f"committed SHA-256 {before.files[name].sha256}, now {second.files[name].sha256}; kept as {evidence[0][0]}"
    )

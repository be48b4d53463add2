"""The journal of a run: numbered entries, each created once and never changed, in which everything that happened to it stands.

An entry is one object, so it is there whole or not at all, and its name can be taken by one writer only. That is what holds two
drivers apart, whatever either believes of itself: whoever takes a run over begins with an entry of its own, and a driver that was
given up for dead and still writes finds the next number taken. The rejected alternatives: an append-only log, which an object
store has not; a lock that is looked at before each write, after which a process may sleep as long as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePath
from typing import Any, Literal

import pyarrow as pa

from runner.checked_json import from_line, to_line
from runner.paths import RunPaths
from runner.storage import Storage
from schemas.errors import InvalidInput, RunBusy

Kind = Literal["begin", "plan", "units", "failure", "cleared"]
KINDS = ("begin", "plan", "units", "failure", "cleared")

_HEAD_BYTES = 1 << 16
"""As much of an entry is read at first; a head is seldom longer."""

_AHEAD = 256
"""Heads that are read together where reads take long."""

_MOST_BYTES = 1 << 31
"""Of an entry's rows of a table, uncompressed: more than a group ever has."""

_COMPRESSION = pa.Codec("zstd", compression_level=1)


@dataclass(frozen=True)
class Entry:
    """The head of an entry. epoch: of the driver that wrote it, never lower than that of the entry before. record: what it says;
    its fields depend on `kind` (docs/formats.md, "Journal").
    """

    number: int
    epoch: int
    kind: Kind
    record: Mapping[str, Any]


class EntryTakenError(RunBusy):
    """Another driver has created the entry that this one was about to create."""


class Journal:
    """The journal of the run at `paths`, whose tables have these schemas."""

    def __init__(self, storage: Storage, paths: RunPaths, schemas: Mapping[str, pa.Schema]) -> None:
        self._storage = storage
        self._paths = paths
        self._schemas = schemas

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Heads of the entries behind number `after`, in order.

        Raises InvalidInput for an entry that is damaged, and for a number that is missing: no kill does that.
        """
        names = self._storage.names(self._paths.journal)[after:]
        numbers = range(after + 1, after + 1 + len(names))
        for number, name in zip(numbers, names, strict=True):
            if name != self._paths.entry(number).name:
                raise InvalidInput(str(self._paths.journal), "", name, f"{self._paths.entry(number).name}, the next number")
        if self._storage.parallel == 1:
            yield from map(self._head, numbers)
            return
        with ThreadPoolExecutor(self._storage.parallel) as threads:
            for first in range(0, len(numbers), _AHEAD):
                yield from threads.map(self._head, numbers[first : first + _AHEAD])

    def append(self, number: int, epoch: int, kind: Kind, record: Mapping[str, Any], payload: bytes = b"") -> Entry:
        """Create entry `number`; durable on return. Raises EntryTakenError when another driver has created it."""
        path = self._paths.entry(number)
        try:
            self._storage.create(path, to_line({"epoch": epoch, "kind": kind, **record}) + payload)
        except FileExistsError:
            message = f"{self._paths.root}: another driver has taken this run over and written {path.name}"
            raise EntryTakenError(message) from None
        return Entry(number, epoch, kind, record)

    def rows_with_ends(self, number: int, table: str) -> tuple[pa.Table, list[int]]:
        """An entry's rows of a table, all units together, and for each unit the row behind its last."""
        head, tables = self._read(number, [table])
        rows: list[int] = head.record["tables"][table]["rows"]
        return tables[table], list(accumulate(rows))

    def tables(self, number: int, names: Sequence[str]) -> dict[str, pa.Table]:
        """An entry's rows of these tables. Raises InvalidInput when they are not what the head says."""
        return self._read(number, names)[1]

    def _read(self, number: int, names: Sequence[str]) -> tuple[Entry, dict[str, pa.Table]]:
        path = self._paths.entry(number)
        data = self._bytes(path)
        end = data.find(b"\n") + 1
        head = _parsed(str(path), number, data[:end])
        described: Mapping[str, Any] = head.record["tables"] if head.kind == "units" else {}
        found: dict[str, pa.Table] = {}
        start = end
        for name in sorted(described):
            about = described[name]
            if name in names:
                found[name] = _decoded(str(path), name, about, data[start : start + about["bytes"]], self._schemas[name])
            start += about["bytes"]
        missing = sorted(set(names) - found.keys())
        if missing or start != len(data):
            raise InvalidInput(str(path), "", f"{len(data)} bytes, and not all tables", "the entry as runner wrote it")
        return head, found

    def _head(self, number: int) -> Entry:
        path = self._paths.entry(number)
        data = self._bytes(path, _HEAD_BYTES)
        if b"\n" not in data and len(data) == _HEAD_BYTES:
            data = self._bytes(path)
        return _parsed(str(path), number, data[: data.find(b"\n") + 1])

    def _bytes(self, path: PurePath, limit: int | None = None) -> bytes:
        try:
            return self._storage.read(path, limit)
        except FileNotFoundError:
            allowed = "the entry that was there before, unless the run was finished meanwhile"
            raise InvalidInput(str(path), "", "no such file", allowed) from None


def encoded(tables: Mapping[str, Sequence[pa.Table]]) -> tuple[dict[str, dict[str, Any]], bytes]:
    """Rows of units as an entry holds them: what its head says of each table, and the payload.

    tables: table name -> rows of each unit, in the order of the units. A table is one Arrow record batch without its schema,
    which a release knows by its version, zstd-compressed.
    """
    described: dict[str, dict[str, Any]] = {}
    payload = b""
    for name, of_units in sorted(tables.items()):
        batches = pa.concat_tables(of_units).combine_chunks().to_batches()
        raw = batches[0].serialize() if batches else pa.py_buffer(b"")
        data = _COMPRESSION.compress(raw, asbytes=True) if raw.size else b""
        described[name] = {
            "schema_version": _version(of_units[0].schema),
            "rows": [one.num_rows for one in of_units],
            "raw_bytes": raw.size,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        payload += data
    return described, payload


def _decoded(file: str, name: str, about: Mapping[str, Any], data: bytes, schema: pa.Schema) -> pa.Table:
    found = hashlib.sha256(data).hexdigest()
    if found != about["sha256"]:
        raise InvalidInput(file, name, f"SHA-256 {found}", f"{about['sha256']}, as the entry's head says")
    if about["schema_version"] != _version(schema):
        raise InvalidInput(file, name, f"schema version {about['schema_version']}", f"{_version(schema)}, which is installed")
    if not about["raw_bytes"]:
        return schema.empty_table()
    try:
        raw = _COMPRESSION.decompress(data, about["raw_bytes"])
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(raw), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(file, name, f"no rows of its schema ({error})", "the entry as runner wrote it") from None
    if batch.num_rows != sum(about["rows"]):
        raise InvalidInput(file, name, f"{batch.num_rows} rows", f"{sum(about['rows'])}, as the entry's head says")
    return pa.Table.from_batches([batch], schema)


def _parsed(file: str, number: int, line: bytes) -> Entry:
    """Raises InvalidInput for a head that is not one."""
    content = from_line(line)
    allowed = "an entry of a journal as runner wrote it"
    if content is None:
        raise InvalidInput(file, "line 1", "a damaged line", allowed)
    record = dict(content)
    epoch, kind = record.pop("epoch", None), record.pop("kind", None)
    if not isinstance(epoch, int) or kind not in KINDS:
        raise InvalidInput(file, "line 1", f"kind {kind} of epoch {epoch}", allowed)
    if kind == "units":
        _require_units(file, record, allowed)
    return Entry(number, epoch, kind, record)


def _require_units(file: str, record: Mapping[str, Any], allowed: str) -> None:
    """Raises InvalidInput unless the units and tables of a head have the types that readers rely on."""
    try:
        units = record["units"]
        right = isinstance(units, list) and all(isinstance(unit, str) for unit in units)
        for about in record["tables"].values():
            rows = about["rows"]
            right &= len(rows) == len(units) and all(isinstance(count, int) and count >= 0 for count in rows)
            right &= isinstance(about["bytes"], int) and isinstance(about["raw_bytes"], int) and isinstance(about["sha256"], str)
            right &= about["bytes"] >= 0 and 0 <= about["raw_bytes"] <= _MOST_BYTES
    except (KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise InvalidInput(file, "line 1", "units without their tables", allowed)


def _version(schema: pa.Schema) -> str:
    return str((schema.metadata or {}).get(b"schema_version", b"none").decode())

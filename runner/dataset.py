"""The dataset of a run: its tables as Parquet, in the order of the plans, cut into parts of equal length.

Journal entries stand in the order of arrival and in groups as they came; a dataset shows nothing of that. Equal rows in the order
of the plan give equal files under equal names, whoever wrote them and in however many attempts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from runner import parquet
from runner.paths import RunPaths
from runner.storage import Storage
from schemas.digest import rows_sha256
from schemas.errors import InvalidInput

PART_ROWS = 1 << 14
"""Rows of a part, all but a stage's last."""


@dataclass(frozen=True)
class Part:
    """A data file: the rows of a table and stage from `number` * PART_ROWS on.

    sha256: of the file's bytes, which differ between Arrow releases. rows_sha256: of its rows (schemas.digest), which do not.
    """

    stage: str
    table: str
    number: int
    sha256: str
    bytes: int
    rows: int
    rows_sha256: str

    def path(self, paths: RunPaths) -> PurePath:
        """Raises ValueError for names that cannot be part of a file name."""
        return paths.part(self.table, self.stage, self.number, self.sha256)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Part:
        """Raises TypeError for fields that are missing, unknown or of another type."""
        part = cls(**record)
        numbers = (part.number, part.bytes, part.rows)
        texts = (part.stage, part.table, part.sha256, part.rows_sha256)
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int) for one in numbers):
            raise TypeError("a field of another type")
        return part


def write_parts(
    storage: Storage, paths: RunPaths, *, stage: str, table: str, schema: pa.Schema, rows: Iterable[pa.Table]
) -> list[Part]:
    """Write a stage's rows of a table, which come in order and in pieces of any length; durable on return."""
    parts = []
    for number, piece in enumerate(_cut(rows, schema)):
        data = parquet.to_bytes(piece)
        part = Part(stage, table, number, hashlib.sha256(data).hexdigest(), len(data), piece.num_rows, rows_sha256(piece))
        storage.create(part.path(paths), data)
        parts.append(part)
    return parts


def read_part(storage: Storage, paths: RunPaths, part: Part) -> pa.Table:
    """A part's rows. Raises InvalidInput when the file is not what the run was marked with."""
    path = part.path(paths)
    allowed = "the file that finished.json names"
    try:
        data = storage.read(path)
    except FileNotFoundError:
        raise InvalidInput(str(path), "", "no such file", allowed) from None
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != part.bytes:
        raise InvalidInput(str(path), "", f"{len(data)} bytes instead of {part.bytes}", allowed)
    if digest != part.sha256:
        raise InvalidInput(str(path), "", f"SHA-256 {digest} instead of {part.sha256}", allowed)
    try:
        return parquet.from_bytes(data)
    except pa.ArrowException as error:
        raise InvalidInput(str(path), "", f"no Parquet ({error})", allowed) from None


def digest_of(parts: Iterable[Part]) -> str:
    """SHA-256 (hex) over the sorted (table, stage, number, SHA-256 of the rows) of all parts: equal rows, equal digests, on hosts
    with whichever Arrow releases.
    """
    lines = sorted(f"{part.table}\t{part.stage}\t{part.number}\t{part.rows_sha256}\n" for part in parts)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _cut(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in pieces of PART_ROWS."""
    waiting: list[pa.Table] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += piece.num_rows
        while count >= PART_ROWS:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, PART_ROWS)
            waiting = [whole.slice(PART_ROWS)]
            count -= PART_ROWS
    if count:
        yield pa.concat_tables(waiting)

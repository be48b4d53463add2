"""An append-only log of JSON records, one a line, each under its own checksum.

A kill or a power loss can tear the end of the last append and nothing else: `read` passes over a torn end, and
`repair`, called by who has claimed the run, cuts it off before anything is appended behind it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.disk import Disk, put_files
from schemas.errors import InvalidInput


@dataclass(frozen=True)
class LogContent:
    """records: in the order of appending. whole_bytes: length up to the last whole line. torn_bytes: what is left behind that."""

    records: Sequence[Mapping[str, Any]]
    whole_bytes: int
    torn_bytes: int


class RecordLog:
    """The log at `path`; one that does not exist reads as empty."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk

    def create(self) -> None:
        """Make the log's name durable, so that later only its content needs syncing. A log that exists stays as it is."""
        if not self.path.exists():
            put_files(self._disk, [(self.path, b"")])

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records; durable on return. Precondition: created, and repaired since the last kill."""
        self._disk.append(self.path, b"".join(_encode(record) for record in records))
        self._disk.fsync(self.path)

    def read(self) -> LogContent:
        """All whole records. Raises InvalidInput when a line that is not the end is damaged: no kill does that."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return LogContent((), 0, 0)
        records: list[Mapping[str, Any]] = []
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1
            record = _decode(data[start:end]) if end else None
            if record is None:
                break
            records.append(record)
            start = end
        torn = data[start:]
        if any(_decode(line) is not None for line in torn.splitlines(keepends=True)):
            allowed = "whole lines, but for a torn end"
            raise InvalidInput(str(self.path), f"line {len(records) + 1}", "a damaged line before whole ones", allowed)
        return LogContent(records, start, len(torn))

    def repair(self) -> int:
        """Cut a torn end off; returns its length in bytes."""
        content = self.read()
        if content.torn_bytes:
            self._disk.truncate(self.path, content.whole_bytes)
            self._disk.fsync(self.path)
        return content.torn_bytes


def canonical_json(value: object) -> str:
    """Sorted keys, no spaces, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _encode(record: Mapping[str, Any]) -> bytes:
    text = canonical_json(record)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"record":{text},"sha256":"{checksum}"}}\n'.encode()


def _decode(line: bytes) -> Mapping[str, Any] | None:
    """The record of a whole line, None for anything else."""
    try:
        wrapper = json.loads(line)
        record = wrapper["record"]
        whole = isinstance(record, dict) and _encode(record) == line
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if whole else None

"""JSON as this project writes it where bytes matter: canonical, and a line under its own checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: object) -> str:
    """Sorted keys, no spaces, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_line(record: Mapping[str, Any]) -> bytes:
    """`{"record":R,"sha256":"H"}` and LF, R canonical and H its SHA-256."""
    text = canonical_json(record)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"record":{text},"sha256":"{checksum}"}}\n'.encode()


def from_line(line: bytes) -> Mapping[str, Any] | None:
    """The record of a whole line, None for anything else."""
    try:
        wrapper = json.loads(line)
        record = wrapper["record"]
        whole = isinstance(record, dict) and to_line(record) == line
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if whole else None

"""The events log: what happened when, where and how often. No part of the dataset, and nothing is decided by it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runner.disk import FILE_MODE


class EventsLog:
    """Appends one JSON object a line, each with `time` (UTC) and `event`. Not synced: its end may be lost."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        end = os.fstat(self._descriptor).st_size
        if end and os.pread(self._descriptor, 1, end - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # behind a torn line, which otherwise would take the next one along

    def write(self, event: str, **fields: Any) -> None:
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        os.write(self._descriptor, (json.dumps(line, ensure_ascii=False) + "\n").encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        os.close(self._descriptor)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Events of the log at `path`, oldest first; lines that a kill tore are passed over."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event

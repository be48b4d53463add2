"""The events log: what happened when, where and how often. No part of the dataset, and nothing is decided by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import Any, Self

from runner.storage import Storage


class EventsLog:
    """Appends one JSON object a line, each with `time` (UTC) and `event`. Not synced: its end may be lost."""

    def __init__(self, storage: Storage, path: PurePath) -> None:
        self._appender = storage.appender(path)

    def write(self, event: str, **fields: Any) -> None:
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        self._appender.write((json.dumps(line, ensure_ascii=False) + "\n").encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._appender.close()


class EventsReader:
    """Reads a log while a driver appends to it: each call of `new` gives the events that came since the one before.

    read: the log's content from an offset on; b"" where there is no log yet.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._offset = 0

    def new(self) -> Iterator[dict[str, Any]]:
        data = self._read(self._offset)
        whole = data[: data.rfind(b"\n") + 1]  # the rest is being written, or was torn
        self._offset += len(whole)
        return _parsed(whole)


def read_events(storage: Storage, path: PurePath) -> Iterator[dict[str, Any]]:
    """Events of the log at `path`, oldest first; lines that are none are passed over, as a kill tears them."""
    return _parsed(storage.read_appended(path))


def _parsed(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event

"""How a run gets on: a live bar on a terminal, one line an interval elsewhere, nothing where a machine reads."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars

LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""


class Progress(Protocol):
    """What the driver says of itself. Called often; cheap."""

    def stage(self, name: str, *, total: int, done: int, failed: int) -> None:
        """A stage begins, with what an earlier driver did of it."""

    def committed(self, units: int) -> None: ...

    def set_aside(self, units: int) -> None: ...

    def cleared(self, units: int) -> None:
        """Units that were set aside in this stage are tried again."""

    def working(self, *, in_flight: int, workers: int) -> None:
        """Units in workers' hands, and workers alive."""


class Silent:
    """Says nothing."""

    def stage(self, name: str, *, total: int, done: int, failed: int) -> None:
        pass

    def committed(self, units: int) -> None:
        pass

    def set_aside(self, units: int) -> None:
        pass

    def cleared(self, units: int) -> None:
        pass

    def working(self, *, in_flight: int, workers: int) -> None:
        pass


class Bar:
    """A bar a stage, live. Use with `with`, so that the terminal is given back as it was."""

    def __init__(self, console: Console) -> None:
        self._bars = RichBars(
            TextColumn("stage {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None
        self._failed = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._bars.stop()

    def stage(self, name: str, *, total: int, done: int, failed: int) -> None:
        self._failed = failed
        self._task = self._bars.add_task(name, total=total, completed=done + failed, note=_note(failed, 0, 0))

    def committed(self, units: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, units)

    def set_aside(self, units: int) -> None:
        self._failed += units
        self.committed(units)

    def cleared(self, units: int) -> None:
        self.set_aside(-units)

    def working(self, *, in_flight: int, workers: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, note=_note(self._failed, in_flight, workers))


class Lines:
    """A line at the start of a stage, one an interval, one at its end."""

    def __init__(self, console: Console, interval: float = LINE_SECONDS) -> None:
        self._console = console
        self._interval = interval
        self._name, self._total, self._done, self._failed = "", 0, 0, 0
        self._next = 0.0

    def stage(self, name: str, *, total: int, done: int, failed: int) -> None:
        self._name, self._total, self._done, self._failed = name, total, done, failed
        self._say("")

    def committed(self, units: int) -> None:
        self._done += units
        if self._done + self._failed == self._total:
            self._say("")

    def set_aside(self, units: int) -> None:
        self._failed += units
        self.committed(0)

    def cleared(self, units: int) -> None:
        self._failed -= units

    def working(self, *, in_flight: int, workers: int) -> None:
        if time.monotonic() >= self._next and self._done + self._failed < self._total:
            self._say(_note(0, in_flight, workers))

    def _say(self, note: str) -> None:
        self._next = time.monotonic() + self._interval
        parts = [f"stage {self._name}: {self._done}/{self._total} units done"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        self._console.print(", ".join([*parts, *filter(None, [note])]), highlight=False, markup=False)


def _note(failed: int, in_flight: int, workers: int) -> str:
    parts = [f"{failed} failed"] if failed else []
    if workers:
        parts.append(f"{in_flight} in flight on {workers} workers" if workers != 1 else f"{in_flight} in flight on 1 worker")
    return ", ".join(parts)

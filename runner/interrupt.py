"""Ctrl-C in two steps: the first asks the driver to finish what is in flight, the second stops it where it stands."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """Somebody (or the system, by SIGTERM) stopped the run. Everything committed stays; the same command resumes.

    A KeyboardInterrupt, so that no handler of ordinary errors takes it for a failed unit; Ray's C++ core, in which the driver
    waits, lets no other exception of a signal handler through.
    """

    exit_code = 130


class Interrupt:
    """Signal handling for the length of a `with`: `requested` after the first SIGINT or SIGTERM, Interrupted by the second.

    `notice` is called once, at the first signal, to tell the person what happens now.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, notice: Callable[[], None]) -> None:
        self.requested = False
        self._notice = notice
        self._before: list[signal._HANDLER] = []

    def __enter__(self) -> Self:
        self._before = [signal.signal(number, self._handle) for number in self.SIGNALS]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for number, handler in zip(self.SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def require_none(self) -> None:
        """Raises Interrupted after the first signal, too: for whoever waits and has nothing in flight that could be finished.

        Asked, rather than raised by the signal: in the middle of Ray's start an exception is swallowed or leads to a crash.
        """
        if self.requested:
            raise Interrupted("interrupted before any worker had work")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise Interrupted("stopped at once")
        self.requested = True
        self._notice()

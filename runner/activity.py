"""How a run gets on, as its events log tells it: fed event by event, so that to watch a long run costs no more than a short one.

Nothing is decided by it; what a run holds is told by its store (runner.verdict).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

RATE_SECONDS = 60.0
"""The rate is that of the last so many seconds."""

FAILURES_SHOWN = 5
"""Units set aside that are remembered: the last ones."""


@dataclass
class StageActivity:
    """Units of a stage, in the order of planning."""

    name: str
    total: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed


@dataclass
class HostActivity:
    """What a host's workers did. seconds: compute time of what they did."""

    workers: set[str] = field(default_factory=set)
    done: int = 0
    failed_leases: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class InHand:
    """A lease in a worker's hands."""

    host: str
    units: int
    since: float


class Activity:
    """The sum of the events so far. clock: seconds, to tell how old the last event is on the reader's own clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.stages: dict[str, StageActivity] = {}
        self.hosts: dict[str, HostActivity] = {}
        self.in_hand: dict[int, InHand] = {}
        self.set_aside: deque[str] = deque(maxlen=FAILURES_SHOWN)
        self._clock = clock
        self._began = 0.0
        self._last = 0.0
        self._seen = clock()
        self._recent: deque[tuple[float, int]] = deque()

    def feed(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take events in. One of another release's form is passed over."""
        for event in events:
            self._seen = self._clock()
            try:
                self._last = datetime.fromisoformat(event["time"]).timestamp()
                self._take(event)
            except (KeyError, TypeError, ValueError):
                continue

    @property
    def stage(self) -> StageActivity | None:
        """The stage that was planned last."""
        return next(reversed(self.stages.values()), None)

    @property
    def in_flight(self) -> int:
        return sum(one.units for one in self.in_hand.values())

    def now(self) -> float:
        """The time on the driver's clock."""
        return self._last + self._clock() - self._seen

    def rate(self) -> float:
        """Units a second, lately; 0.0 where none was done."""
        start = self.now() - RATE_SECONDS
        while self._recent and self._recent[0][0] < start:
            self._recent.popleft()
        units = sum(units for _, units in self._recent)
        return units / max(self.now() - max(start, self._began), 1.0) if units else 0.0

    def seconds_left(self) -> float | None:
        """Of the stage in work, at the present rate; None where nothing can be said. Later stages are not planned yet."""
        rate = self.rate()
        return self.stage.left / rate if self.stage is not None and rate else None

    def _take(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "started":
                self.in_hand.clear()
                self._recent.clear()
                for host in self.hosts.values():
                    host.workers.clear()
            case "planned":
                reasons = event["reasons"]
                self.stages.pop(event["stage"], None)  # a stage that is planned again is the last again
                counts = (event["units"], reasons.get("done", 0), reasons.get("failed", 0))
                self.stages[event["stage"]] = StageActivity(event["stage"], *counts)
                self._began = self._last
                self._recent.clear()
            case "joined":
                self._host(event["host"]).workers.add(event["worker"])
            case "left":
                if event["host"]:  # it had joined
                    self._host(event["host"]).workers.discard(event["worker"])
            case "leased":
                self.in_hand[event["lease"]] = InHand(event["host"], len(event["units"]), self._last)
            case "done":
                self.in_hand.pop(event["lease"], None)
                self.stages[event["stage"]].done += event["new"]
                host = self._host(event["host"])
                host.done += event["new"]
                host.seconds += event["seconds"]
                self._recent.append((self._last, event["new"]))
            case "failed":
                self.in_hand.pop(event["lease"], None)
                self._host(event["host"]).failed_leases += 1
            case "set_aside":
                self.stages[event["stage"]].failed += 1
                self.set_aside.append(
                    f"prompt {event['prompt_id']} in stage {event['stage']}: {event['kind']} after {event['strikes']} tries: "
                    f"{event['error']}"
                )
            case "cleared":
                self.stages[event["stage"]].failed -= len(event["units"])
                self.set_aside.clear()

    def _host(self, name: str) -> HostActivity:
        return self.hosts.setdefault(name, HostActivity())

"""What is in workers' hands: each lease from when it is handed over until it is answered or given up, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemas.unit import Lease


@dataclass(frozen=True)
class Held:
    """A lease and the worker that has it. since: when it was handed over, on the clock of `InFlight`."""

    lease: Lease
    worker: str
    since: float


class InFlight:
    """Leases that an answer is waited for, at most `patience` seconds each. clock: seconds, never going back."""

    def __init__(self, patience: float, clock: Callable[[], float]) -> None:
        self.units = 0
        self.patience = patience
        self._clock = clock
        self._held: dict[int, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, lease: Lease, worker: str) -> Held:
        held = Held(lease, worker, self._clock())
        self._held[lease.lease_id] = held
        self.units += len(lease.units)
        return held

    def take(self, lease: Lease) -> Held | None:
        """The lease's place, which is empty from now on; None when it was answered or given up before: this answer is late."""
        held = self._held.pop(lease.lease_id, None)
        if held is not None:
            self.units -= len(held.lease.units)
        return held

    def seconds(self, held: Held) -> float:
        """How long ago it was handed over."""
        return self._clock() - held.since

    def overdue(self) -> list[Held]:
        """Leases whose time is up, oldest first; they stay until they are taken."""
        return [held for held in self._held.values() if self.seconds(held) >= self.patience]

"""Units that were set aside are asked for again: by the driver that holds the run, or through a file that it looks for.

Only the holder of a run's claim writes its journal. Somebody else who wants a retry leaves a request in the run, which the live
driver takes at its next look; should it end before, the next one takes it, so no request is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.store import RunStore


class RetryRequest:
    """The request for another try of everything that is set aside in the run of `store`, made or not."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._path = store.paths.retry_request

    def make(self) -> None:
        """Leave the request, durably. One that is there already asks for the same."""
        try:
            self._store.storage.replace(self._path, b"failed\n")
        except FileNotFoundError:  # a driver that began just now has swept the half-written file
            self._store.storage.replace(self._path, b"failed\n")

    def pending(self) -> bool:
        return self._store.storage.exists(self._path)

    def take(self, stages: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """`clear`, if the request is pending."""
        return self.clear(stages) if self.pending() else {}

    def clear(self, stages: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Write down that all units set aside are to be tried again, and answer the request; returns stage -> units.

        For the claim's holder only. A kill in between leaves the request: what was cleared may then be cleared once more, which
        costs tries and no result.
        """
        cleared = {stage: list(failures) for stage in stages if (failures := self._store.failures(stage))}
        for stage, units in cleared.items():
            self._store.append("cleared", {"stage": stage, "units": units})
        if self.pending():
            self._store.storage.remove(self._path)
        return cleared

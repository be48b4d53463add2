"""Commit of results: in groups, since one wait for the disk serves all that arrived before it.

A unit is done for good when its group's entry stands in the journal; before, it never happened. How units were grouped shows
nowhere but there. A second result for a unit (a retry whose first answer arrived after all, a host that was only slow) must be
the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from runner import parquet
from runner.failure import Failure
from runner.journal import encoded
from runner.store import RunStore
from schemas.errors import ConformanceFinding
from schemas.unit import UnitResult

GROUP_SECONDS = 2.0
"""Longest that a result waits for others, the time that it took included; what took longer is committed at once. So a kill loses
at most the work of so many seconds, beside what is in flight.
"""

GROUP_BYTES = 16 << 20
"""Rows in memory that are enough for a group."""

GROUP_UNITS = 4096
"""Units that are enough for a group, however short their rows: a table takes memory beside them."""


class Committer:
    """Takes results as they come and commits them in groups. Precondition: the store was recovered by the claim's holder.

    group_seconds: 0 commits at every opportunity.
    """

    def __init__(
        self, store: RunStore, *, group_seconds: float = GROUP_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._group_seconds = group_seconds
        self._stage = ""
        self._waiting: dict[str, UnitResult] = {}
        self._bytes = 0
        self._since = 0.0

    def add(self, stage: str, results: Sequence[UnitResult], *, seconds: float = 0.0) -> None:
        """Take the results of one lease, which took so many seconds, for the next group.

        Raises ConformanceFinding when a unit is committed, or waits to be, with other bytes; its second result is kept under
        findings/, and nothing of this lease is taken.
        """
        if stage != self._stage:
            self.commit()
            self._stage = stage
        new: dict[str, UnitResult] = {}
        for result in results:
            self._require_schemas(result)
            before = new[result.key].tables if result.key in new else self._rows(stage, result.key)
            if before is None:
                new[result.key] = result
            else:
                self._require_same(stage, result.key, before, result.tables)
        if new:
            begun = self._clock() - seconds
            self._since = min(self._since, begun) if self._waiting else begun
        self._waiting |= new
        self._bytes += sum(table.nbytes for result in new.values() for table in result.tables.values())

    def compare(self, stage: str, results: Sequence[UnitResult]) -> None:
        """Hold results that count for nothing to those of the same units that do. Raises ConformanceFinding as `add` does."""
        for result in results:
            before = self._rows(stage, result.key)
            if before is not None:
                self._require_schemas(result)
                self._require_same(stage, result.key, before, result.tables)

    def due(self) -> bool:
        """Whether what waits should wait no longer."""
        if not self._waiting:
            return False
        enough = self._bytes >= GROUP_BYTES or len(self._waiting) >= GROUP_UNITS
        return enough or self._clock() - self._since >= self._group_seconds

    def commit(self) -> Collection[str]:
        """Commit what waits, as one entry; returns the keys of the units that are done now and were not before."""
        results = list(self._waiting.values())
        if results:
            tables, payload = encoded({name: [one.tables[name] for one in results] for name in self._store.schemas})
            units = [result.key for result in results]
            self._store.append("units", {"stage": self._stage, "units": units, "tables": tables}, payload)
        keys = frozenset(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return keys

    def set_aside(self, stage: str, failure: Failure) -> None:
        """Write down that a unit will not be tried any more; durable on return."""
        self._store.append("failure", {"stage": stage, "failure": asdict(failure)})

    def _rows(self, stage: str, unit: str) -> Mapping[str, pa.Table] | None:
        """Rows of a unit that is committed or waits; None of one that is new."""
        waiting = self._waiting.get(unit) if stage == self._stage else None
        if waiting is not None:
            return waiting.tables
        return None if self._store.place(stage, unit) is None else self._store.unit_rows(stage, unit)

    def _require_schemas(self, result: UnitResult) -> None:
        """ValueError where the protocol broke its own schema: a bug, not a user's mistake."""
        schemas = self._store.schemas
        if set(result.tables) != set(schemas):
            raise ValueError(f"unit {result.key}: tables {sorted(result.tables)}, the protocol declares {sorted(schemas)}")
        for name, table in result.tables.items():
            if not table.schema.equals(schemas[name], check_metadata=True):
                raise ValueError(
                    f"unit {result.key}: table {name} is not of the declared schema:\n{table.schema}\n{schemas[name]}"
                )

    def _require_same(self, stage: str, unit: str, before: Mapping[str, pa.Table], second: Mapping[str, pa.Table]) -> None:
        """Raises ConformanceFinding, with evidence kept, unless both are the same bytes; as Parquet, which is canonical."""
        contents = {name: (parquet.to_bytes(before[name]), parquet.to_bytes(second[name])) for name in sorted(second)}
        differing = [name for name, (committed, now) in contents.items() if committed != now]
        if not differing:
            return
        self.commit()  # what others gave is none the worse for it
        store = self._store
        evidence = [(store.paths.finding(name, stage, unit), contents[name][1]) for name in differing]
        for path, data in evidence:
            store.require_held()
            store.storage.replace(path, data)
        committed, now = (hashlib.sha256(data).hexdigest() for data in contents[differing[0]])
        raise ConformanceFinding(
            f"stage {stage}, unit {unit}: executed again it gave other bytes in {', '.join(differing)}: "
            f"committed SHA-256 {committed}, now {now}; kept as {evidence[0][0]}"
        )

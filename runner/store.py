"""What a run holds: reader of its plans, its journal, and of the dataset that a finished run consists of.

Until a run is finished its journal is believed and nothing else; then its mark and the files that this names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Any, Protocol

import pyarrow as pa

from runner.dataset import digest_of, read_part
from runner.failure import Failure
from runner.journal import Entry, EntryTakenError, Journal, Kind
from runner.journal_index import JournalIndex, Place
from runner.mark import Mark
from runner.paths import RunPaths
from runner.plan_files import Plan
from runner.storage import Storage, storage_at
from schemas.errors import InvalidInput, RunBusy


class Tenure(Protocol):
    """The right to write to a run. epoch: higher than that of every driver before."""

    epoch: int

    def require_held(self, *, look: bool = False) -> None:
        """Raises RunBusy when another driver has taken the run over. look: not even a moment's old knowledge will do."""


class RunStore:
    """The run at `paths`, with the schemas of its protocol's tables. What was read is kept; `refresh` reads what was added."""

    def __init__(self, paths: RunPaths, schemas: Mapping[str, pa.Schema], storage: Storage | None = None) -> None:
        self.paths = paths
        self.schemas = schemas
        self.storage = storage or storage_at(paths.root)
        self._journal = Journal(self.storage, paths, schemas)
        self._require_held: Callable[..., None] = lambda *, look=False: None
        self._reset()

    def _reset(self) -> None:
        self._index = JournalIndex(self.paths)
        self._read = False
        self._mark: Mark | None = None
        self._epoch = 0
        self._keys: tuple[Plan | None, list[str]] = None, []

    def refresh(self) -> None:
        """Forget that everything was read."""
        self._read = False

    # Reading

    def units(self, stage: str) -> frozenset[str]:
        """Keys of the committed units of a stage."""
        if self.finished() is not None:
            return frozenset(self.planned_keys(stage))
        return frozenset(self.index().units.get(stage, ()))

    def place(self, stage: str, unit: str) -> Place | None:
        """Where the journal has a committed unit's rows; None for one that is not committed."""
        return self.index().units[stage].get(unit)

    def failures(self, stage: str) -> dict[str, Failure]:
        """Unit key -> failure, for units that are set aside now: not cleared since, and not committed after all by a worker that
        was given up and still answered.
        """
        return dict(self.index().failures.get(stage, {}))

    def planned(self, stage: str) -> Iterator[Mapping[str, Any]]:
        """Lines of the stage's plan in dataset order (see runner.plan), one at a time; none when the stage has no plan.

        Raises InvalidInput for a damaged plan: a kill leaves it whole.
        """
        allowed = "the plan as runner wrote it"
        plan = self.plans().get(stage, Plan([], 0))
        for path, part in zip(self.plan_paths(stage), plan.files, strict=True):
            try:
                data = self.storage.read(path)
            except FileNotFoundError:
                if part is plan.files[0] and self._replanned(stage, plan):
                    yield from self.planned(stage)
                    return
                raise InvalidInput(str(path), "", "no such file", allowed) from None
            found = hashlib.sha256(data).hexdigest()
            if found != part.sha256:
                raise InvalidInput(str(path), "", f"a damaged plan (SHA-256 {found} instead of {part.sha256})", allowed)
            try:
                for text in data.splitlines():
                    line = json.loads(text)
                    yield {name: line[name] for name in ("unit", "prompt_id", "meaning")}
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InvalidInput(str(path), "", f"a damaged plan ({error})", allowed) from None

    def _replanned(self, stage: str, plan: Plan) -> bool:
        """Whether a driver has planned the stage anew since this reader looked, and removed the plan that it knows."""
        self.refresh()
        return self.plans().get(stage) != plan

    def planned_keys(self, stage: str) -> Sequence[str]:
        """Keys of the stage's planned units in dataset order. Those of the stage that was asked for last are kept."""
        plan = self.plans().get(stage)
        if self._keys[0] is not plan or plan is None:
            self._keys = plan, [str(line["unit"]) for line in self.planned(stage)]
        return self._keys[1]

    def plan_paths(self, stage: str) -> list[PurePath]:
        """Where the parts of the stage's plan lie; none when it has no plan."""
        return [self.paths.plan_file(part.file) for part in self.plans()[stage].files] if stage in self.plans() else []

    def plans(self) -> Mapping[str, Plan]:
        """Stage -> its plan, for stages that have one."""
        mark = self.finished()
        return self.index().plans if mark is None else mark.plans

    def table(self, stage: str, table: str) -> pa.Table:
        """Rows of all planned and committed units of a stage, in plan order whatever the order of arrival.

        Raises InvalidInput for a file that is not what it was when it was written.
        """
        pieces = [rows for _, rows in self.pieces(stage, table)]
        return pa.concat_tables(pieces) if pieces else self.schemas[table].empty_table()

    def pieces(self, stage: str, table: str) -> Iterator[tuple[PurePath, pa.Table]]:
        """The same rows in pieces, each with the place that it is from: a data file, or before a run is finished its journal."""
        mark = self.finished()
        if mark is None:
            for rows in self.rows_in_order(stage, table):
                yield self.paths.journal, rows
            return
        parts = [part for part in mark.parts if (part.stage, part.table) == (stage, table)]
        for part in sorted(parts, key=lambda one: one.number):
            yield part.path(self.paths), read_part(self.storage, self.paths, part)

    def rows_in_order(self, stage: str, table: str) -> Iterator[pa.Table]:
        """The same from the journal, a piece at a time: neighbours in plan and entry are one piece."""
        units = self.index().units.get(stage, {})
        cache: dict[int, tuple[pa.Table, list[int]]] = {}
        open_bytes = 0
        waiting = self.schemas[table].empty_table()
        run: tuple[int, int, int] | None = None  # of the rows that wait: entry, first row, row behind the last
        for key in self.planned_keys(stage):
            place = units.get(key)
            if place is None:
                continue
            if place.entry not in cache:
                # Leases follow the plan, so that few entries are open at a time; only a retry comes long after its neighbours.
                opened = self._journal.rows_with_ends(place.entry, table)
                open_bytes += opened[0].nbytes
                while cache and open_bytes > _OPEN_BYTES:
                    open_bytes -= cache.pop(next(iter(cache)))[0].nbytes
                cache[place.entry] = opened
            ends = cache[place.entry][1]
            first, end = (ends[place.place - 1] if place.place else 0), ends[place.place]
            if run is not None and run[0] == place.entry and run[2] == first:
                run = (place.entry, run[1], end)
                continue
            if run is not None:
                yield waiting.slice(run[1], run[2] - run[1])
            run, waiting = (place.entry, first, end), cache[place.entry][0]
        if run is not None:
            yield waiting.slice(run[1], run[2] - run[1])

    def unit_rows(self, stage: str, unit: str) -> dict[str, pa.Table]:
        """A committed unit's rows of every table, from the journal."""
        place = self.index().units[stage][unit]
        found = {}
        for table in self.schemas:
            rows, ends = self._journal.rows_with_ends(place.entry, table)
            first = ends[place.place - 1] if place.place else 0
            found[table] = rows.slice(first, ends[place.place] - first)
        return found

    def check_entry(self, entry: Entry) -> None:
        """Read an entry's rows whole. Raises InvalidInput when they are not what its head says."""
        if entry.kind == "units":
            self._journal.tables(entry.number, list(self.schemas))

    def entries(self) -> Iterator[Entry]:
        """Heads of all entries of the journal."""
        return self._journal.entries()

    def stages_on_disk(self) -> list[str]:
        """Stages that have a plan or committed units, by name."""
        index = self.index()
        return sorted({*self.plans(), *index.units, *index.failures})

    def finished(self) -> Mark | None:
        """The mark of a run that has ended with everything done, or None. Such a run never changes again."""
        self._load()
        return self._mark

    def index(self) -> JournalIndex:
        """What the journal adds up to; empty of a finished run, whose journal is not read any more."""
        self._load()
        return self._index

    def dataset_digest(self) -> str | None:
        """SHA-256 (hex) of the dataset, by which two runs can be compared; None before the run is finished."""
        mark = self.finished()
        return None if mark is None else digest_of(mark.parts)

    def findings(self) -> list[PurePath]:
        """Evidence of units that gave different bytes when executed again, and what workers and checks found (runner.finding)."""
        return [self.paths.findings / name for name in self.storage.names(self.paths.findings)]

    def orphans(self) -> list[PurePath]:
        """What killed drivers left: files that are not whole, plans that no entry names; of a finished run the journal, too, and
        data files that a driver wrote after it was given up.
        """
        named = {path for stage in self.plans() for path in self.plan_paths(stage)}
        plans = [self.paths.plans / name for name in self.storage.names(self.paths.plans)]
        found = {path for path in plans if path not in named}
        found.update(self.storage.leftovers(self.paths.root))
        if self.finished() is not None:
            found.update(self.paths.journal / name for name in self.storage.names(self.paths.journal))
            found.update(set(self.data_files()).difference(self.part_paths()))
        return sorted(found)

    def data_files(self) -> list[PurePath]:
        """Every file under tables/, named or not."""
        return [
            self.paths.table(table) / name
            for table in sorted(self.schemas)
            for name in self.storage.names(self.paths.table(table))
        ]

    def part_paths(self) -> list[PurePath]:
        """The data files that the mark names."""
        mark = self.finished()
        return [] if mark is None else [part.path(self.paths) for part in mark.parts]

    def _load(self) -> None:
        if self._read or self._mark is not None:
            return
        self._mark = Mark.read(self.storage, self.paths.finished)
        if self._mark is None:
            try:
                for entry in self._journal.entries(after=self._index.last):
                    self._index.add(entry)
            except InvalidInput:
                self._mark = Mark.read(self.storage, self.paths.finished)  # a finished run's journal goes
                if self._mark is None:
                    raise
        if self._mark is not None:
            self._index = JournalIndex(self.paths)
        self._read = True

    # Writing: only for the holder of the run's claim

    def recover(self, tenure: Tenure | None = None) -> list[PurePath]:
        """Take the run over: begin a new epoch, after which no earlier driver can add anything, and sweep what these left.

        Returns what was removed. Without a tenure nobody else can have the run: tests, and tools that hold it otherwise.
        """
        self.refresh()
        if tenure is not None:
            self._require_held = tenure.require_held
        if self.finished() is None:
            self._epoch = self._index.epoch + 1 if tenure is None else tenure.epoch
            if self._epoch < self._index.epoch:
                # A successor began, or claims were removed by hand and begin anew: then this driver still has the run.
                self._require_held(look=True)
                self._epoch = self._index.epoch + 1
            while not self._begun():
                self.refresh()
                self._load()
                if self._index.epoch >= self._epoch:
                    raise RunBusy(f"{self.paths.root}: this driver was given up, and another one began to work on the run")
        # A plan for an entry behind those that were read here is a successor's: it is named there, or is about to be.
        over = self.finished() is not None
        orphans = [path for path in self.orphans() if over or self.paths.plan_number(path) <= self.index().last]
        self._require_held(look=True)
        self.remove(orphans)
        return orphans

    def require_held(self) -> None:
        """Raises RunBusy when another driver has taken this run over."""
        self._require_held()

    def append(self, kind: Kind, record: Mapping[str, Any], payload: bytes = b"") -> Entry:
        """Add an entry to the journal; durable on return. Raises RunBusy when another driver has taken the run over."""
        if self.finished() is not None:
            raise RuntimeError(f"{self.paths.root} is finished and never changes again")
        if not self._epoch:
            raise RuntimeError(f"{self.paths.root} was not taken over: only the holder of its claim writes to it")
        self._require_held()
        entry = self._journal.append(self.index().last + 1, self._epoch, kind, record, payload)
        self._index.add(entry)
        return entry

    def remove(self, paths: Sequence[PurePath]) -> None:
        """Remove files that nothing names any more."""
        self._require_held()
        with ThreadPoolExecutor(self.storage.parallel) as threads:
            list(threads.map(self.storage.remove, paths))

    def next_entry(self) -> int:
        """Number of the entry that the next append makes."""
        return self.index().last + 1

    def _begun(self) -> bool:
        """Begin this epoch; False when an earlier driver added an entry meanwhile, which counts."""
        try:
            self.append("begin", {})
        except EntryTakenError:
            return False
        return True


_OPEN_BYTES = 128 << 20
"""Of entries whose rows are in memory at a time, at most; one entry may have more."""

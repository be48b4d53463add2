"""What the entries of a journal add up to: which units are committed and where, which are set aside, which plan is a stage's."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from runner.failure import Failure
from runner.journal import Entry
from runner.paths import RunPaths
from runner.plan_files import Plan
from schemas.errors import InvalidInput


class Place(NamedTuple):
    """Where a unit's rows are: the entry's number, and the unit's place in the entry."""

    entry: int
    place: int


class JournalIndex:
    """Of the run at `paths`. Grows by one entry at a time; holds a few words a unit and no rows."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self.last = 0
        self.epoch = 0
        self.plans: dict[str, Plan] = {}
        self.units: defaultdict[str, dict[str, Place]] = defaultdict(dict)
        self.failures: defaultdict[str, dict[str, Failure]] = defaultdict(dict)

    def add(self, entry: Entry) -> None:
        """Raises InvalidInput for an entry that cannot follow those before, or does not say what its kind says."""
        if entry.number != self.last + 1 or entry.epoch < self.epoch:
            raise self._error(entry, f"epoch {entry.epoch} after epoch {self.epoch}", "epochs that do not go back")
        try:
            if entry.kind != "begin":
                self._add(entry, entry.record["stage"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._error(entry, f"no entry of kind {entry.kind} ({error})", "the entry as runner wrote it") from None
        self.last, self.epoch = entry.number, entry.epoch

    def _add(self, entry: Entry, stage: str) -> None:
        if not isinstance(stage, str):
            raise TypeError("a stage that is no text")
        match entry.kind:
            case "plan":
                self.plans[stage] = Plan.from_record(entry.record, self._paths)
            case "units":
                units = self.units[stage]
                for place, unit in enumerate(entry.record["units"]):
                    if unit in units:
                        raise self._error(entry, f"unit {unit} for the second time", "each unit once")
                    units[unit] = Place(entry.number, place)
                    # A worker that was given up may answer after all.
                    self.failures[stage].pop(unit, None)
            case "failure":
                failure = Failure.from_record(entry.record["failure"])
                if failure.unit not in self.units[stage]:
                    self.failures[stage][failure.unit] = failure
            case "cleared":
                for unit in entry.record["units"]:
                    self.failures[stage].pop(unit, None)

    def _error(self, entry: Entry, found: str, allowed: str) -> InvalidInput:
        return InvalidInput(str(self._paths.journal), f"entry {entry.number}", found, allowed)

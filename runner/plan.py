"""The plan of a stage: every unit written down before any runs, each with the reason why it will run or not.

new: not done. done: committed. failed: set aside after strikes. stale: this run planned the same unit of the stage with another
meaning before; the fields that changed are named with what they were, so that nobody has to guess why finished work runs again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from runner.checked_json import canonical_json
from runner.failure import Failure
from runner.store import RunStore
from schemas.unit import Unit

PART_UNITS = 1 << 13
"""Units in one file of a plan, so that no plan has to be in memory whole."""

NOTHING = "nothing"

LONGEST = 24
"""Characters of a value that a line shows."""

Reason = Literal["new", "done", "failed", "stale"]


class Change(NamedTuple):
    """A field of a meaning by its dotted name, and its values as JSON, "nothing" where a meaning lacks it."""

    field: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.field} changed from {_short(self.before)} to {_short(self.after)}"


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A unit and why it will run (new, stale) or not (done, failed). changes: of a stale unit. failure: of one set aside."""

    unit: Unit
    reason: Reason
    changes: tuple[Change, ...] = ()
    failure: Failure | None = None

    @property
    def changed(self) -> tuple[str, ...]:
        """Dotted names of a stale unit's changed fields."""
        return tuple(change.field for change in self.changes)

    @property
    def why(self) -> str:
        """What else there is to say of the reason."""
        if self.failure is not None:
            return f"{self.failure.kind} after {self.failure.strikes} tries: {self.failure.error}"
        return ", ".join(map(str, self.changes))

    def as_line(self) -> dict[str, Any]:
        return {
            "unit": self.unit.key,
            "prompt_id": self.unit.prompt_id,
            "group": self.unit.group,
            "reason": self.reason,
            "changed": list(self.changed),
            "meaning": self.unit.meaning,
        }


def plan_stage(store: RunStore, stage: str, units: Sequence[Unit]) -> list[PlannedUnit]:
    """Give each unit of a stage its reason by what the run holds. Order is kept; it is the order of the dataset.

    Raises ValueError when two units have one key: a protocol that does so would count a result twice.
    """
    keys = {unit.key for unit in units}
    if len(keys) != len(units):
        raise ValueError(f"stage {stage}: {len(units)} units have only {len(keys)} keys")
    committed, failed = store.units(stage), store.failures(stage)
    gone = _gone(store.planned(stage), keys)
    planned: list[PlannedUnit] = []
    for unit in units:
        if unit.key in committed:
            planned.append(PlannedUnit(unit, "done"))
        elif unit.key in failed:
            planned.append(PlannedUnit(unit, "failed", failure=failed[unit.key]))
        elif (before := next(gone.get(unit.prompt_id, iter(())), None)) is not None:
            planned.append(PlannedUnit(unit, "stale", changes(before, unit.meaning)))
        else:
            planned.append(PlannedUnit(unit, "new"))
    return planned


def write_plan(store: RunStore, stage: str, planned: Sequence[PlannedUnit]) -> None:
    """Write a stage's plan down: its parts first, then the entry of the journal that makes them the stage's plan."""
    before = store.plan_paths(stage)
    number = store.next_entry()
    files = []
    for part, first in enumerate(range(0, len(planned), PART_UNITS)):
        some = planned[first : first + PART_UNITS]
        data = "".join(canonical_json(unit.as_line()) + "\n" for unit in some).encode()
        path = store.paths.plan(stage, number, part)
        store.require_held()
        store.storage.create(path, data)
        files.append({"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "units": len(some)})
    # What is committed later was planned; so many committed units are no part of this plan and do not count.
    unplanned = len(store.units(stage).difference(one.unit.key for one in planned))
    store.append("plan", {"stage": stage, "files": files, "units": len(planned), "unplanned": unplanned})
    for path in before:
        store.storage.remove(path)


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Dotted names of the fields in which two meanings differ, sorted; a field that only one has counts."""
    return tuple(change.field for change in changes(before, after))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The same with what the values were and are."""
    was, now = ({name: canonical_json(value) for name, value in _flat(one).items()} for one in (before, after))
    names = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    return tuple(Change(name, was.get(name, NOTHING), now.get(name, NOTHING)) for name in names)


def _gone(lines: Iterable[Mapping[str, Any]], keys: set[str]) -> dict[str, Iterator[Mapping[str, Any]]]:
    """Prompt ID -> meanings that were planned before and are not any more.

    The nth new unit of a prompt is compared with the nth that is gone: plans have a fixed order, so a changed parameter leaves
    the places alone, and the pairing is linear in the number of units.
    """
    gone: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["unit"] not in keys:
            gone[line["prompt_id"]].append(line["meaning"])
    return {prompt: iter(meanings) for prompt, meanings in gone.items()}


def _short(value: str) -> str:
    """A value in a line: digests by their beginning."""
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{name}.")
        else:
            flat[prefix + name] = list(item) if isinstance(item, tuple) else item
    return flat

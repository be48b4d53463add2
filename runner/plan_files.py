"""Which files a stage's plan consists of, as the journal, or the mark of a finished run, says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from runner.paths import RunPaths


@dataclass(frozen=True)
class PlanFile:
    """A part of a plan, by its name under plans/."""

    file: str
    sha256: str
    units: int


@dataclass(frozen=True)
class Plan:
    """A stage's plan in its order. units: in all. unplanned: units that were committed before and are no part of it."""

    files: Sequence[PlanFile]
    units: int
    unplanned: int = 0

    def as_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], paths: RunPaths) -> Plan:
        """Raises KeyError, TypeError or ValueError for fields that are missing or of another type, and names out of the run."""
        files = [PlanFile(one["file"], one["sha256"], one["units"]) for one in record["files"]]
        plan = cls(files, record["units"], record["unplanned"])
        for part in files:
            if not isinstance(part.file, str) or not isinstance(part.sha256, str):
                raise TypeError("a file without a name or SHA-256")
            paths.plan_file(part.file)
        if not all(isinstance(count, int) for count in (plan.units, plan.unplanned, *(part.units for part in files))):
            raise TypeError("a number of units that is none")
        if sum(part.units for part in files) != plan.units:
            raise ValueError(f"{plan.units} units, which its files do not have")
        return plan

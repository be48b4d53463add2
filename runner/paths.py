"""Where everything of a run lies: one object, one property a path. docs/formats.md, "Run directory", describes the layout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class RunPaths:
    """Paths of the run at `root`, which is a directory or an address in an object store. Nothing here touches the storage.

    Stage, table and unit names become parts of file names, so all but plain ones are refused with ValueError: a name
    from a log or a plan must not lead out of the run.
    """

    root: PurePath

    @property
    def record(self) -> PurePath:
        return self.root / "run.json"

    @property
    def catalog(self) -> PurePath:
        return self.root / "catalog.tsv"

    @property
    def claims(self) -> PurePath:
        return self.root / "claims"

    @property
    def events(self) -> PurePath:
        return self.root / "events.log"

    @property
    def retry_request(self) -> PurePath:
        """Asks the driver for another try of what is set aside (runner.retry_request)."""
        return self.root / "retry"

    @property
    def finished(self) -> PurePath:
        return self.root / "finished.json"

    @property
    def plans(self) -> PurePath:
        return self.root / "plans"

    @property
    def journal(self) -> PurePath:
        return self.root / "journal"

    @property
    def tables(self) -> PurePath:
        return self.root / "tables"

    @property
    def findings(self) -> PurePath:
        return self.root / "findings"

    @property
    def support(self) -> PurePath:
        """Derived tables, which `runner export` writes; no part of the dataset, and never read."""
        return self.root / "support"

    @property
    def annotations(self) -> PurePath:
        """What people said of the run's texts, which `runner annotate` keeps; no part of the dataset."""
        return self.root / "annotations"

    def claim(self, epoch: int) -> PurePath:
        return self.claims / f"{epoch:09d}.json"

    def plan(self, stage: str, number: int, part: int) -> PurePath:
        """A part of the plan that entry `number` of the journal names."""
        return self.plans / f"{_plain(stage)}-{number:09d}-{part:05d}.jsonl"

    def plan_number(self, path: PurePath) -> int:
        """The entry that names, or was to name, a part of a plan; 0 for any other file."""
        fields = path.name.removesuffix(".jsonl").rsplit("-", 2)
        return int(fields[1]) if path.parent == self.plans and len(fields) == 3 and fields[1].isdecimal() else 0

    def plan_file(self, name: str) -> PurePath:
        """Part of a plan under a name that was read somewhere. Raises ValueError for one that `plan` would not give."""
        _plain(name.removesuffix(".jsonl"))
        return self.plans / name

    def entry(self, number: int) -> PurePath:
        """An entry of the journal; names sort as numbers do."""
        return self.journal / f"{number:09d}.entry"

    def table(self, table: str) -> PurePath:
        return self.tables / _plain(table)

    def part(self, table: str, stage: str, number: int, sha256: str) -> PurePath:
        """A data file. Named by its content too, so that whoever writes it writes the same."""
        return self.table(table) / f"{_plain(stage)}-{number:05d}-{_plain(sha256[:16])}.parquet"

    def finding(self, table: str, stage: str, key: str) -> PurePath:
        """Where a second, different result of a committed unit is kept as evidence."""
        return self.findings / f"{_plain(table)}-{_plain(stage)}-{_plain(key)}.parquet"

    def finding_record(self, stage: str, source: str) -> PurePath:
        """Where it is written down what a worker, or a check of the rows, found in a stage."""
        return self.findings / f"{_plain(source)}-{_plain(stage)}.json"


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name; allowed: lower-case letters, digits, '-', '_'")
    return name

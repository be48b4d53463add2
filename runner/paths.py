"""Where everything of a run lies: one object, one property a path. docs/formats.md, "Run directory", describes the layout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class RunPaths:
    """Paths of the run at `root`. Nothing here touches the disk.

    Stage, table and unit names become parts of file names, so all but plain ones are refused with ValueError: a name
    from a log or a plan must not lead out of the run.
    """

    root: Path

    @property
    def record(self) -> Path:
        return self.root / "run.json"

    @property
    def catalog(self) -> Path:
        return self.root / "catalog.tsv"

    @property
    def claim(self) -> Path:
        return self.root / "claim"

    @property
    def events(self) -> Path:
        return self.root / "events.log"

    @property
    def retry_request(self) -> Path:
        """Asks the driver for another try of what is set aside (runner.retry_request)."""
        return self.root / "retry"

    @property
    def finished(self) -> Path:
        return self.root / "finished.json"

    @property
    def plans(self) -> Path:
        return self.root / "plans"

    @property
    def commits(self) -> Path:
        return self.root / "commits"

    @property
    def failures(self) -> Path:
        return self.root / "failures"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def findings(self) -> Path:
        return self.root / "findings"

    @property
    def support(self) -> Path:
        """Derived tables, which `runner export` writes; no part of the dataset, and never read."""
        return self.root / "support"

    @property
    def annotations(self) -> Path:
        """What people said of the run's texts, which `runner annotate` keeps; no part of the dataset."""
        return self.root / "annotations"

    def directories(self) -> tuple[Path, ...]:
        """What a new run creates, parents first; a table's own directory comes with its first file."""
        return (self.root, self.plans, self.commits, self.failures, self.tables, self.findings)

    def plan(self, stage: str) -> Path:
        return self.plans / f"{_plain(stage)}.jsonl"

    def commit_log(self, stage: str) -> Path:
        return self.commits / f"{_plain(stage)}.log"

    def failure_log(self, stage: str) -> Path:
        return self.failures / f"{_plain(stage)}.log"

    def table(self, table: str) -> Path:
        return self.tables / _plain(table)

    def data(self, table: str, stage: str, key: str) -> Path:
        """The one file that holds a unit's rows of a table."""
        return self.table(table) / f"{_plain(stage)}-{_plain(key)}.parquet"

    def finding(self, table: str, stage: str, key: str) -> Path:
        """Where a second, different result of a committed unit is kept as evidence."""
        return self.findings / f"{_plain(table)}-{_plain(stage)}-{_plain(key)}.parquet"

    def finding_record(self, stage: str, source: str) -> Path:
        """Where it is written down what a worker, or a check of the rows, found in a stage."""
        return self.findings / f"{_plain(source)}-{_plain(stage)}.json"


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a file name; allowed: lower-case letters, digits, '-', '_'")
    return name

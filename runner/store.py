"""What a run holds: reader of its plans, commit logs, failures and data files.

A reader opens only what a commit log names. Files without a line are orphans: left by a kill between rename and log
line, never read, and swept by the next driver.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from runner import parquet
from runner.disk import Disk, is_temporary
from runner.paths import RunPaths
from runner.record_log import LogContent, RecordLog
from schemas.errors import InvalidInput
from schemas.text_file import shown


@dataclass(frozen=True)
class CommittedFile:
    """One data file as its commit line describes it."""

    table: str
    sha256: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class Commit:
    """One line of a commit log: all that a unit gave, at once. files: one for each table of the protocol, by table name."""

    unit: str
    files: Mapping[str, CommittedFile]

    def as_record(self) -> dict[str, Any]:
        files = [{"table": f.table, "sha256": f.sha256, "bytes": f.bytes, "rows": f.rows} for f in self.files.values()]
        return {"unit": self.unit, "files": files}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Commit:
        """Raises KeyError or TypeError for fields that are missing or of another type."""
        files = [CommittedFile(f["table"], f["sha256"], f["bytes"], f["rows"]) for f in record["files"]]
        for file in files:
            if not isinstance(file.sha256, str) or not isinstance(file.bytes, int) or not isinstance(file.rows, int):
                raise TypeError("a field of another type")
        return cls(record["unit"], {file.table: file for file in files})


@dataclass(frozen=True)
class Failure:
    """A unit set aside: what happened last, in one line and in full, and how often it was tried."""

    unit: str
    prompt_id: str
    kind: str
    error: str
    detail: str
    strikes: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Failure:
        """Raises TypeError for fields that are missing, unknown or of another type."""
        failure = cls(**record)
        texts = (failure.unit, failure.prompt_id, failure.kind, failure.error, failure.detail)
        if not all(isinstance(text, str) for text in texts) or not isinstance(failure.strikes, int):
            raise TypeError("a field of another type")
        return failure

    def told(self, stage: str) -> str:
        """What a message says of it; a failure does not know its stage."""
        return f"prompt {self.prompt_id} in stage {stage}: {self.kind} after {self.strikes} tries: {self.error}"


class RunStore:
    """The run at `paths`, with the schemas of its protocol's tables. Commit logs are read once and kept; `refresh` drops them."""

    def __init__(self, paths: RunPaths, schemas: Mapping[str, pa.Schema], disk: Disk | None = None) -> None:
        self.paths = paths
        self.schemas = schemas
        self.disk = disk or Disk()
        self._commits: dict[str, dict[str, Commit]] = {}

    def refresh(self) -> None:
        self._commits.clear()

    def commit_log(self, stage: str) -> RecordLog:
        return RecordLog(self.paths.commit_log(stage), self.disk)

    def failure_log(self, stage: str) -> RecordLog:
        return RecordLog(self.paths.failure_log(stage), self.disk)

    def commits(self, stage: str) -> dict[str, Commit]:
        """Unit key -> commit. The committer adds to this mapping what it commits.

        Raises InvalidInput for a line that is no commit or leads out of the run, and when two lines name one unit.
        """
        if stage not in self._commits:
            log = str(self.paths.commit_log(stage))
            commits: dict[str, Commit] = {}
            for number, record in enumerate(self.commit_log(stage).read().records, start=1):
                try:
                    commit = Commit.from_record(record)
                    for table in commit.files:
                        self.paths.data(table, stage, commit.unit)
                except (KeyError, TypeError, ValueError) as error:
                    raise InvalidInput(log, f"line {number}", f"no commit ({error})", "a unit's key and its files") from None
                if commit.unit in commits:
                    raise InvalidInput(log, f"line {number}", f"unit {commit.unit} for the second time", "each unit once")
                commits[commit.unit] = commit
            self._commits[stage] = commits
        return self._commits[stage]

    def units(self, stage: str) -> frozenset[str]:
        """Keys of the committed units of a stage."""
        return frozenset(self.commits(stage))

    def planned(self, stage: str) -> list[Mapping[str, Any]]:
        """Lines of the stage's plan in dataset order (see runner.plan); [] when the stage has not been planned.

        Raises InvalidInput for a damaged plan: a kill leaves it whole.
        """
        path = self.paths.plan(stage)
        try:
            lines = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
            return [{name: line[name] for name in ("unit", "prompt_id", "meaning")} for line in lines]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(str(path), "", f"a damaged plan ({error})", "the plan as runner wrote it") from None

    def failures(self, stage: str) -> dict[str, Failure]:
        """Unit key -> failure, for units that are set aside now: not cleared since, and not committed.

        Raises InvalidInput for a line that is no failure.
        """
        failures: dict[str, Failure] = {}
        for number, record in enumerate(self.failure_log(stage).read().records, start=1):
            try:
                if record.get("cleared"):
                    failures.pop(record["unit"], None)
                else:
                    failures[record["unit"]] = Failure.from_record(record)
            except (KeyError, TypeError) as error:
                log, found = str(self.paths.failure_log(stage)), f"no failure ({error})"
                raise InvalidInput(log, f"line {number}", found, "a unit that was set aside, or cleared") from None
        return {unit: failure for unit, failure in failures.items() if unit not in self.commits(stage)}

    def table(self, stage: str, table: str) -> pa.Table:
        """Rows of all planned and committed units of a stage, in plan order whatever the order of arrival.

        Raises InvalidInput for a file that is not what its commit line says.
        """
        commits = self.commits(stage)
        files = [self.read(stage, commits[line["unit"]], table) for line in self.planned(stage) if line["unit"] in commits]
        return pa.concat_tables(files) if files else self.schemas[table].empty_table()

    def read(self, stage: str, commit: Commit, table: str) -> pa.Table:
        """One unit's rows of a table; content is checked against the commit line first."""
        path = self.paths.data(table, stage, commit.unit)
        if table not in commit.files:
            found = f"no file of table {table} for unit {commit.unit}"
            raise InvalidInput(str(self.paths.commit_log(stage)), "", found, "a file for each table")
        fault = file_fault(path, commit.files[table])
        if fault:
            raise InvalidInput(str(path), "", fault, "the file that the commit log names")
        return parquet.from_bytes(path.read_bytes())

    def stages_on_disk(self) -> list[str]:
        """Stages that have a plan or a commit log, by name."""
        return sorted({p.stem for p in [*self.paths.plans.glob("[!.]*.jsonl"), *self.paths.commits.glob("[!.]*.log")]})

    def logs(self) -> Iterator[tuple[Path, LogContent]]:
        """Every commit and failure log with its content."""
        for path in sorted([*self.paths.commits.glob("[!.]*.log"), *self.paths.failures.glob("[!.]*.log")]):
            yield path, RecordLog(path, self.disk).read()

    def orphans(self) -> list[Path]:
        """Temporary files anywhere in the run, and data files that no commit log names."""
        named = {
            self.paths.data(table, stage, unit)
            for stage in self.stages_on_disk()
            for unit, commit in self.commits(stage).items()
            for table in commit.files
        }
        data = [path for path in self.paths.tables.rglob("*") if path.is_file() and path not in named]
        temporary = [path for path in self.paths.root.rglob(".*.tmp") if is_temporary(path)]
        return sorted({*data, *temporary})

    def recover(self) -> list[Path]:
        """Cut torn ends off the logs and sweep orphans; returns what was removed. Only for the holder of the run's claim."""
        for path, content in self.logs():
            if content.torn_bytes:
                RecordLog(path, self.disk).repair()
        self.refresh()
        orphans = self.orphans()
        for path in orphans:
            self.disk.remove(path)
        return orphans

    def finished(self) -> dict[str, Any] | None:
        """What was written when the run had ended with everything done, or None. A finished run never changes again.

        Raises InvalidInput for a file that is not what was written.
        """
        path = self.paths.finished
        allowed = "what runner wrote when the run was finished"
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise InvalidInput(str(path), "", f"no JSON ({error})", allowed) from None
        digest = content.get("dataset_digest") if isinstance(content, dict) else None
        if not isinstance(digest, str):
            raise InvalidInput(str(path), "dataset_digest", shown(digest), allowed)
        return dict(content)

    def dataset_digest(self) -> str:
        """SHA-256 (hex) over the sorted (table, stage, unit key, file SHA-256) of all commits: equal datasets, equal digests."""
        lines = sorted(
            f"{file.table}\t{stage}\t{commit.unit}\t{file.sha256}\n"
            for stage in self.stages_on_disk()
            for commit in self.commits(stage).values()
            for file in commit.files.values()
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def findings(self) -> list[Path]:
        """Evidence of units that gave different bytes when executed again, and what workers and checks found (runner.finding)."""
        return sorted(path for path in self.paths.findings.glob("[!.]*"))


def file_fault(path: Path, expected: CommittedFile) -> str:
    """What is wrong with a data file, or ""."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "no such file"
    if len(data) != expected.bytes:
        return f"{len(data)} bytes instead of {expected.bytes}"
    digest = hashlib.sha256(data).hexdigest()
    return "" if digest == expected.sha256 else f"SHA-256 {digest} instead of {expected.sha256}"

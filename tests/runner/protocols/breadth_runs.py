"""Breadth on the embedded checkpoint, executed in this process without driver or store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors.executor import Session
from runner.protocol import Experiment
from runner.protocols import breadth
from schemas.catalog import Prompt
from schemas.job import BreadthJob
from schemas.unit import Unit, UnitResult

SHEEP = Prompt("en-001", "en", "ordinary", "why the sheep")
LIGHT = Prompt("en-004", "en", "sensitivity", "Morning light filled the room")
FRIEND = Prompt("zh-016", "zh", "ordinary", "朋友昨天打来电话")


class Rows:
    """What a store would give: rows by (stage, table). Implements runner.protocol.Committed."""

    def __init__(self, tables: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]] | None = None) -> None:
        self.tables = {key: list(rows) for key, rows in (tables or {}).items()}

    def table(self, stage: str, table: str) -> pa.Table:
        return pa.Table.from_pylist(list(self.tables.get((stage, table), [])), schema=breadth.schemas()[table])

    def units(self, stage: str) -> frozenset[str]:
        return frozenset(row["unit_key"] for row in self.tables.get((stage, "breadth_units"), []))

    def add(self, stage: str, results: Sequence[UnitResult]) -> None:
        for result in results:
            for table, rows in result.tables.items():
                self.tables.setdefault((stage, table), []).extend(rows.to_pylist())


def experiment(session: Session, *prompts: Prompt, **job: Any) -> Experiment:
    """A breadth experiment on the session's checkpoint, at horizons 3 and 6 unless told otherwise."""
    fields = {"schema_version": 1, "name": "test", "protocol": "breadth", "catalog": "prompts.tsv", "horizons": (3, 6)} | job
    return Experiment(BreadthJob(**fields), prompts, session.checkpoint.identity, tokenizer_identity="d" * 64)


def first_units(session: Session, *prompts: Prompt, **job: Any) -> list[Unit]:
    about = experiment(session, *prompts, **job)
    return breadth.units(about, breadth.stages(about.job)[0], Rows())


def unit_row(result: UnitResult) -> dict[str, Any]:
    (row,) = result.tables["breadth_units"].to_pylist()
    assert isinstance(row, dict)
    return row

"""Support tables that are a dataset's own rows: some of a table's columns, under the meaning that its schema gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runner.run import Run
from runner.support.table import Cell, Row, SupportColumn, SupportTable
from schemas.table import Column, TableSpec


def of_dataset(
    name: str, protocol: str, section: str, doc: str, *, spec: TableSpec, stage: str, without: Sequence[str] = ()
) -> SupportTable:
    """Every row of the table in plan order, with all columns but the unit's key and those in `without`. Lists join by commas."""
    columns = [column for column in spec.columns if column.name not in {"unit_key", *without}]

    def rows(run: Run) -> Iterator[Row]:
        for row in run.store.table(stage, spec.name).to_pylist():
            yield {column.name: _cell(column, row[column.name]) for column in columns}

    described = tuple(SupportColumn(column.name, column.doc) for column in columns)
    return SupportTable(name=name, protocol=protocol, section=section, doc=doc, columns=described, rows=rows)


def _cell(column: Column, value: Any) -> Cell:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    if pa.types.is_float64(column.type):
        return repr(value)  # the other floats of a support table are FP32
    cell: Cell = value
    return cell

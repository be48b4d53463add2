"""What a result table is: columns, types, nullability and meaning, versioned. The tables themselves are in schemas.tables.

A table's bytes are promised: equal rows give equal Parquet. So a schema's metadata has a fixed order and says nothing of the
library that made it, and any change of a schema, its documentation included, is a new version. tests/schemas/golden has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

INT = pa.int32()
FLOAT = pa.float32()
TEXT = pa.string()
BOOL = pa.bool_()


@dataclass(frozen=True)
class Column:
    """One column. nullable: null has a meaning that `doc` says."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False


@dataclass(frozen=True)
class TableSpec:
    """A table: `key` names the columns whose values tell a row from every other of a dataset."""

    name: str
    version: int
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema with the metadata table, schema_version, key, and doc on each field."""
        fields = [pa.field(one.name, one.type, nullable=one.nullable, metadata={"doc": one.doc}) for one in self.columns]
        return pa.schema(fields, metadata={"table": self.name, "schema_version": str(self.version), "key": ",".join(self.key)})

    def build(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """A table of these rows, in their order.

        Raises ValueError for a missing or unknown column, a value of another type, a null that is not allowed, or a key that
        stands twice: each is a bug in the protocol that made the rows.
        """
        names = [column.name for column in self.columns]
        for row in rows:
            if row.keys() != set(names):
                raise ValueError(f"{self.name}: columns that differ from the schema: {sorted(row.keys() ^ set(names))}")
        arrays = []
        for column in self.columns:
            values = [row[column.name] for row in rows]
            if _has_floats_for_integers(column.type, values):
                raise ValueError(f"{self.name}.{column.name}: a floating-point number where an integer belongs")
            try:
                arrays.append(pa.array(values, type=column.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise ValueError(f"{self.name}.{column.name}: {error}") from error
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        self.check(table)
        return table

    def check(self, table: pa.Table) -> None:
        """Raises ValueError unless the table has exactly this schema and metadata, no forbidden null, and no key twice."""
        if not table.schema.equals(self.schema, check_metadata=True):
            raise ValueError(f"{self.name}: schema is not version {self.version} of {self.name}:\n{table.schema}")
        for field in table.schema:
            for chunk in table.column(field.name).chunks:
                if any(_forbidden_nulls(field, chunk)):
                    raise ValueError(f"{self.name}.{field.name}: a null where none is allowed")
        keys = list(zip(*(table.column(name).to_pylist() for name in self.key), strict=True))
        if len(set(keys)) != len(keys):
            twice = next(one for index, one in enumerate(keys) if one in keys[:index])
            raise ValueError(f"{self.name}: two rows with the key {twice}")

    def describe(self) -> dict[str, Any]:
        """The schema as plain data, for `runner schema` and the golden files."""
        columns = [{"name": one.name, "type": str(one.type), "nullable": one.nullable, "doc": one.doc} for one in self.columns]
        return {"table": self.name, "schema_version": self.version, "key": list(self.key), "columns": columns}


def _has_floats_for_integers(arrow_type: pa.DataType, values: Iterable[Any]) -> bool:
    """Arrow would cut the fractions off without a word."""
    if pa.types.is_list(arrow_type):
        return any(value is not None and _has_floats_for_integers(arrow_type.value_type, value) for value in values)
    return pa.types.is_integer(arrow_type) and any(isinstance(value, float | np.floating) for value in values)


def _forbidden_nulls(field: pa.Field, array: pa.Array) -> Iterator[bool]:
    yield not field.nullable and array.null_count > 0
    if pa.types.is_list(field.type):
        yield from _forbidden_nulls(field.type.value_field, array.flatten())


def list_of(item: pa.DataType) -> pa.ListType:
    """A list without nulls. Its items are called "element", as Parquet calls them, so that the type survives a file."""
    return pa.list_(pa.field("element", item, nullable=False))

"""Building and checking tables: exact schema, nulls, keys, bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.table import Column, TableSpec, list_of

SPEC = TableSpec(
    name="small",
    version=3,
    key=("id", "n"),
    columns=(
        Column("id", pa.string(), "an id"),
        Column("n", pa.int32(), "a number"),
        Column("first", pa.int32(), "null where there is none", nullable=True),
        Column("list", list_of(pa.int32()), "numbers"),
        Column("gap", pa.float32(), "a gap"),
    ),
)
ROW: dict[str, Any] = {"id": "a", "n": 1, "first": None, "list": [1, 2], "gap": 0.5}


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_rows_come_back_in_order() -> None:
    rows = [ROW | {"n": 2, "first": 7, "list": []}, ROW]
    assert SPEC.build(rows).to_pylist() == rows


def test_no_rows_are_an_empty_table_of_the_schema() -> None:
    table = SPEC.build([])
    assert (table.num_rows, table.schema.equals(SPEC.schema, check_metadata=True)) == (0, True)


def test_numpy_values_are_taken_as_they_are() -> None:
    row = ROW | {"n": np.int32(4), "list": np.array([3, 4], dtype=np.int32), "gap": np.float32(0.1)}
    table = SPEC.build([row])
    assert table.column("gap").to_numpy()[0] == np.float32(0.1)
    assert table.column("list").to_pylist() == [[3, 4]]


def test_metadata_is_the_contract_in_a_fixed_order() -> None:
    assert list(SPEC.schema.metadata.items()) == [(b"table", b"small"), (b"schema_version", b"3"), (b"key", b"id,n")]
    assert SPEC.schema.field("n").metadata == {b"doc": b"a number"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "small.id: a null"),
        ({"list": None}, "small.list: a null"),
        ({"list": [1, None]}, "small.list: a null"),
        ({"n": 2**31}, "small.n: "),
        ({"n": 1.5}, "small.n: a floating-point number"),
        ({"n": "1"}, "small.n: "),
        ({"id": 1}, "small.id: "),
        ({"list": ["x"]}, "small.list: "),
        ({"list": [1.5]}, "small.list: a floating-point number"),
        ({"list": np.array([1.5], dtype=np.float32)}, "small.list: a floating-point number"),
        ({"extra": 1}, "small: columns that differ from the schema: ['extra']"),
    ],
)
def test_a_row_out_of_the_contract_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("[", r"\[")):
        SPEC.build([ROW | change])


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['gap'\]"):
        SPEC.build([{name: value for name, value in ROW.items() if name != "gap"}])


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"two rows with the key \('a', 1\)"):
        SPEC.build([ROW, ROW | {"n": 2}, ROW | {"gap": 9.0}])


@pytest.mark.parametrize(
    "schema",
    [
        SPEC.schema.remove_metadata(),
        SPEC.schema.with_metadata({"table": "small", "schema_version": "2", "key": "id,n"}),
        SPEC.schema.set(1, pa.field("n", pa.int64(), nullable=False, metadata={"doc": "a number"})),
        SPEC.schema.set(1, pa.field("n", pa.int32(), nullable=True, metadata={"doc": "a number"})),
        SPEC.schema.set(1, pa.field("n", pa.int32(), nullable=False, metadata={"doc": "another number"})),
        pa.schema(list(SPEC.schema)[::-1], metadata=SPEC.schema.metadata),
    ],
)
def test_a_table_of_another_schema_is_refused(schema: pa.Schema) -> None:
    with pytest.raises(ValueError, match="schema is not version 3 of small"):
        SPEC.check(schema.empty_table())


def test_a_null_that_arrow_let_through_is_found() -> None:
    arrays = [pa.array([None], type=field.type) for field in SPEC.schema]
    with pytest.raises(ValueError, match="a null where none is allowed"):
        SPEC.check(pa.Table.from_arrays(arrays, schema=SPEC.schema))


def test_a_table_survives_parquet_with_its_whole_schema() -> None:
    table = SPEC.build([ROW])
    read = pq.read_table(io.BytesIO(parquet(table)))
    SPEC.check(read)
    assert read.equals(table)


def test_equal_rows_give_equal_bytes_without_a_mention_of_pandas() -> None:
    data = parquet(SPEC.build([ROW]))
    assert data == parquet(SPEC.build([dict(reversed(ROW.items()))]))
    assert b"pandas" not in data

"""Digests of tables: which bytes are hashed."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest

from runner import parquet
from schemas.digest import floats_sha256, routes_sha256, rows_sha256, tokens_sha256
from schemas.table import list_of


def test_tokens_are_comma_joined() -> None:
    assert tokens_sha256([477, 3, 11885]) == hashlib.sha256(b"477,3,11885").hexdigest()


def test_numpy_tokens_count_as_tokens() -> None:
    assert tokens_sha256(list(np.array([1, 2], dtype=np.int32))) == tokens_sha256([1, 2])


def test_no_tokens_are_the_empty_text() -> None:
    assert tokens_sha256([]) == hashlib.sha256(b"").hexdigest()


def test_the_order_of_tokens_counts() -> None:
    assert tokens_sha256([1, 23]) != tokens_sha256([23, 1])
    assert tokens_sha256([1, 23]) != tokens_sha256([12, 3])


def test_floats_are_little_endian_fp32() -> None:
    assert floats_sha256(np.array([1.0], dtype=np.float32)) == hashlib.sha256(bytes([0, 0, 128, 63])).hexdigest()


def test_floats_are_row_major_whatever_the_strides() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert floats_sha256(values) == floats_sha256(np.asfortranarray(values)) == floats_sha256(values.ravel())
    assert floats_sha256(values.T) != floats_sha256(values)


def test_signed_zeros_differ() -> None:
    assert floats_sha256(np.array([0.0], dtype=np.float32)) != floats_sha256(np.array([-0.0], dtype=np.float32))


def test_other_float_types_are_refused() -> None:
    with pytest.raises(TypeError):
        floats_sha256(np.zeros(2))  # type: ignore[arg-type]


def test_a_selection_is_a_set() -> None:
    routes = np.array([[[5, 1, 3]], [[2, 0, 4]]], dtype=np.int32)
    ascending = hashlib.sha256(np.array([1, 3, 5, 0, 2, 4], dtype="<i4").tobytes()).hexdigest()
    assert routes_sha256(routes) == ascending


def test_the_order_of_steps_counts() -> None:
    routes = np.array([[[0, 1]], [[2, 3]]], dtype=np.int32)
    assert routes_sha256(routes) != routes_sha256(routes[::-1])


def test_routes_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError):
        routes_sha256(np.zeros((2, 3), dtype=np.int32))


SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("ids", list_of(pa.int32()), nullable=False),
        pa.field("margin", pa.float32()),
        pa.field("same", pa.bool_(), nullable=False),
    ],
    metadata={"schema_version": "7"},
)
ROWS: list[dict[str, object]] = [
    {"key": "a", "note": "é", "ids": [1, 2], "margin": 0.5, "same": True},
    {"key": "bc", "note": None, "ids": [], "margin": None, "same": False},
    {"key": "", "note": "", "ids": [3], "margin": -0.0, "same": True},
]


def rows(*changes: tuple[int, str, object]) -> pa.Table:
    changed = [dict(row) for row in ROWS]
    for row, name, value in changes:
        changed[row][name] = value
    return pa.Table.from_pylist(changed, SCHEMA)


def test_rows_are_hashed_as_documented() -> None:
    head = (
        '[3,"7",[["key","string",false],["note","string",true],["ids",["list","int32",false],false],'
        '["margin","float32",true],["same","bool",false]]]\n'
    )
    columns = [
        struct.pack("<3q", 1, 2, 0) + b"abc",
        bytes([1, 0, 1]) + struct.pack("<3q", 2, 0, 0) + "é".encode(),
        struct.pack("<3q", 2, 0, 1) + struct.pack("<3i", 1, 2, 3),
        bytes([1, 0, 1]) + struct.pack("<3f", 0.5, 0.0, -0.0),
        bytes([1, 0, 1]),
    ]
    assert rows_sha256(rows()) == hashlib.sha256(head.encode() + b"".join(columns)).hexdigest()


def test_chunks_slices_and_files_show_nothing_in_the_digest_of_rows() -> None:
    table, digest = rows(), rows_sha256(rows())
    assert rows_sha256(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == digest
    assert rows_sha256(pa.concat_tables([rows((0, "key", "x")), table]).slice(3)) == digest
    assert rows_sha256(parquet.from_bytes(parquet.to_bytes(table))) == digest


@pytest.mark.parametrize(
    "change",
    [
        (0, "note", None),
        (1, "note", ""),
        (2, "margin", 0.0),
        (2, "margin", None),
        (1, "margin", 0.0),
        (0, "ids", [1]),
        (0, "same", False),
    ],
)
def test_any_other_value_is_another_digest_of_rows(change: tuple[int, str, object]) -> None:
    assert rows_sha256(rows(change)) != rows_sha256(rows())


def test_neighbours_that_share_their_letters_differ() -> None:
    assert rows_sha256(rows((0, "key", "ab"), (1, "key", "c"))) != rows_sha256(rows())
    assert rows_sha256(rows((0, "ids", [1]), (1, "ids", [2]))) != rows_sha256(rows())


def test_order_names_version_and_number_of_rows_count() -> None:
    table, digest = rows(), rows_sha256(rows())
    assert rows_sha256(table.take([1, 0, 2])) != digest
    assert rows_sha256(table.rename_columns(["id", *table.column_names[1:]])) != digest
    assert rows_sha256(table.replace_schema_metadata({"schema_version": "8"})) != digest
    assert rows_sha256(table.slice(0, 2)) != digest
    assert rows_sha256(table.slice(0, 0)) == rows_sha256(SCHEMA.empty_table()) != digest


def test_columns_that_no_table_has_are_refused() -> None:
    with pytest.raises(TypeError, match="when: no digest of timestamp"):
        rows_sha256(pa.table({"when": pa.array([0], pa.timestamp("s"))}))


def test_a_null_where_none_is_allowed_is_no_zero() -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    with pytest.raises(ValueError, match="id: a null"):
        rows_sha256(pa.table({"id": pa.array([1, None], pa.int32())}, schema=schema))


def test_text_that_is_no_utf8_has_a_digest_of_its_bytes() -> None:
    text = pa.array([b"\xff"]).cast(pa.binary()).view(pa.string())
    assert rows_sha256(pa.table({"text": text})) != rows_sha256(pa.table({"text": ["\u00ff"]}))

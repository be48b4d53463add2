"""SHA-256 digests that tables hold, and of tables: which bytes are hashed is part of the contract (study 3.4, 4.5;
docs/formats.md).

Bits are hashed as they are: -0.0 and +0.0 differ, NaN payloads too, nothing is padded, byte order is little-endian.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def tokens_sha256(tokens: Sequence[int]) -> str:
    """Hex digest of the ordered token IDs: their decimal numbers joined by commas, ASCII, no spaces (study 3.4)."""
    return hashlib.sha256(",".join(str(int(token)) for token in tokens).encode()).hexdigest()


def floats_sha256(values: npt.NDArray[np.float32]) -> str:
    """Hex digest of an FP32 array of any shape: its values in row-major order, 4 bytes each. TypeError for another dtype."""
    if values.dtype != np.float32:
        raise TypeError(f"float32 values, not {values.dtype}")
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f4").tobytes()).hexdigest()


def routes_sha256(routes: npt.NDArray[np.int32]) -> str:
    """Hex digest of routes int32 [steps, layers, k]: each selection's expert ids ascending, row-major, 4 bytes an id.

    A selection is a set (study 3.2.1), because the native reference adds in ascending expert id: two orders of it are one route.
    """
    if routes.dtype != np.int32 or routes.ndim != 3:
        raise TypeError(f"int32 [steps, layers, k] routes, not {routes.dtype} with {routes.ndim} axes")
    return hashlib.sha256(np.ascontiguousarray(np.sort(routes, axis=-1), dtype="<i4").tobytes()).hexdigest()


def rows_sha256(table: pa.Table) -> str:
    """Hex digest of a table's rows and of what they are, whatever file format, Arrow release or chunks they are in.

    Hashed are a line of JSON with the number of rows, the schema_version of the metadata, and each column's name, type and
    whether it may hold nulls, then the columns in their order: where there may be nulls, a byte a value (1: there is one),
    then the values, nulls as nothing or zero. Integers and floating-point numbers have their own width, booleans a byte; of
    texts and lists come the lengths, 8 bytes each, then all UTF-8 bytes or all items. TypeError for a column of another
    type, ValueError for a null where none may be.
    """
    version = (table.schema.metadata or {}).get(b"schema_version")
    columns = [[field.name, _type_name(field), field.nullable] for field in table.schema]
    head = [table.num_rows, None if version is None else version.decode(), columns]
    digest = hashlib.sha256(json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    for field, column in zip(table.schema, table.columns, strict=True):
        for piece in _bytes_of(field, column.combine_chunks()):
            digest.update(piece)
    return digest.hexdigest()


TYPE_NAMES = {
    pa.bool_(): "bool",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.string(): "string",
}
"""Names in digests. Arrow's own could change."""


def _type_name(field: pa.Field) -> object:
    """The name of a column's type; of a list `["list", name of the items' type, whether they may be null]`."""
    if pa.types.is_list(field.type):
        item = field.type.value_field
        return ["list", _type_name(item), item.nullable]
    try:
        return TYPE_NAMES[field.type]
    except KeyError:
        raise TypeError(f"{field.name}: no digest of {field.type}") from None


def _bytes_of(field: pa.Field, array: pa.Array) -> Iterator[bytes]:
    if field.nullable:
        yield array.is_valid().to_numpy(zero_copy_only=False).tobytes()
    elif array.null_count:
        raise ValueError(f"{field.name}: a null where none is allowed")
    if pa.types.is_string(field.type):
        yield _lengths(pc.binary_length(array))
        yield b"".join(array.drop_null().cast(pa.binary()).to_pylist())
    elif pa.types.is_list(field.type):
        yield _lengths(pc.list_value_length(array))
        yield from _bytes_of(field.type.value_field, array.flatten())
    else:
        values = array.fill_null(False if pa.types.is_boolean(field.type) else 0).to_numpy(zero_copy_only=False)
        yield values.astype(values.dtype.newbyteorder("<")).tobytes()


def _lengths(lengths: pa.Array) -> bytes:
    return bytes(lengths.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8").tobytes())

"""Tables to Parquet bytes and back."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from runner import parquet

SCHEMA = pa.schema(
    [pa.field("key", pa.string(), nullable=False), pa.field("ids", pa.list_(pa.field("element", pa.int32(), nullable=False)))],
    metadata={"schema_version": "1"},
)


@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_a_table_comes_back_with_its_schema(rows: int) -> None:
    table = pa.Table.from_pylist([{"key": f"k{row}", "ids": [row, row + 1] if row % 3 else None} for row in range(rows)], SCHEMA)
    back = parquet.from_bytes(parquet.to_bytes(table))
    assert back.equals(table, check_metadata=True)
    assert back.schema.equals(SCHEMA, check_metadata=True)


def test_what_is_no_parquet() -> None:
    with pytest.raises(pa.ArrowInvalid):
        parquet.from_bytes(b"PAR1 and no more")


COUNT_THREADS = """
import os
import pyarrow as pa
from runner import parquet
data = parquet.to_bytes(pa.table({"key": ["a"] * 1000}))
before = os.listdir("/proc/self/task")
parquet.from_bytes(data)
assert os.listdir("/proc/self/task") == before
"""


def test_reading_starts_no_thread() -> None:
    """Seen: one that read ahead let go of the bytes after the interpreter had ended, which aborted one command in fifty."""
    ended = subprocess.run([sys.executable, "-c", COUNT_THREADS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")

"""Tables to Parquet bytes and back: equal tables give equal bytes under one pyarrow version."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


def to_bytes(table: pa.Table) -> bytes:
    """Parquet bytes of a table.

    One chunk and one row group, plain encoding and a fixed zstd level: how the rows were gathered must not show in the file. The
    schema rides along (ARROW:schema), with its version in the metadata; of the writer only pyarrow's version is named.
    """
    sink = io.BytesIO()
    pq.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=max(1, table.num_rows),
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        write_statistics=True,
        write_page_index=False,
        store_schema=True,
    )
    return sink.getvalue()


def from_bytes(data: bytes) -> pa.Table:
    """The table in Parquet bytes. Raises pyarrow.ArrowInvalid where they are not Parquet.

    In this thread alone: one of Arrow's, which read ahead, may still have a hold on the bytes when the interpreter ends, and then
    the process is aborted with everything done (test_parquet).
    """
    with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
        return file.read(use_threads=False)

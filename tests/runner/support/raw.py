"""A run's rows read without the runner, and an exported table read without its writer: what figures are recomputed from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset

if TYPE_CHECKING:
    from runner.run import Run


def raw(run: Run, table: str) -> list[dict[str, Any]]:
    """All rows of a finished run's table, as any reader of Parquet finds them."""
    rows: list[dict[str, Any]] = pyarrow.dataset.dataset(run.paths.table(table)).to_table().to_pylist()
    return rows


def read_tsv(path: Path) -> list[dict[str, str]]:
    """Rows of a support table; texts as they are written, escapes and all."""
    header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert lines, f"{path.name}: a table without rows would satisfy any loop over it"
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]

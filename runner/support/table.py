"""What a support table is: the small TSV files that a reader of the results gets, computed from a run's dataset (study A.1, A.4).

A support table is derived: it can be made again from the dataset at any time, and nothing is ever computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from runner.run import Run

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]

ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
"""As in a prompt catalog. A generated text of several lines stays one cell (known failure R09)."""


@dataclass(frozen=True)
class SupportColumn:
    """One column and what a cell of it says."""

    name: str
    doc: str


@dataclass(frozen=True)
class SupportTable:
    """name: of the file, less .tsv. protocol: whose runs have it; "" for every run. section: of the study. rows: from a finished
    run, in an order that the dataset decides; each has exactly the columns.
    """

    name: str
    protocol: str
    section: str
    doc: str
    columns: tuple[SupportColumn, ...]
    rows: Callable[[Run], Iterable[Row]]

    def to_tsv(self, rows: Iterable[Row]) -> str:
        """Header line and a line a row. Raises ValueError for a row with other columns: a bug in the table's module."""
        names = [column.name for column in self.columns]
        lines = ["\t".join(names)]
        for row in rows:
            if list(row) != names:
                raise ValueError(f"{self.name}: a row with the columns {list(row)} instead of {names}")
            lines.append("\t".join(to_text(row[name]) for name in names))
        return "\n".join(lines) + "\n"


def to_text(cell: Cell) -> str:
    """A cell as it stands in the file. Floats are FP32 values: the shortest decimal that reads back as the same FP32 value."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case float():
            return str(np.float32(cell)) if math.isfinite(cell) else repr(cell)
        case str():
            return cell.translate(ESCAPES)
    return str(cell)

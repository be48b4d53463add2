"""How cells become text, and what a table refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.support.table import SupportColumn, SupportTable, to_text

TABLE = SupportTable("t", "", "3.1", "A table.", (SupportColumn("a", "one"), SupportColumn("b", "two")), lambda run: ())


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (720, "720"),
        ("plain", "plain"),
        ("", ""),
        ("one\ntwo\r\n\tthree\\", r"one\ntwo\r\n\tthree\\"),  # R09
        (float(np.float32(0.1)), "0.1"),
        (0.001953125, "0.001953125"),
        (float("inf"), "inf"),
    ],
)
def test_a_cell_has_one_text(cell: Any, text: str) -> None:
    assert to_text(cell) == text


def test_a_float_reads_back_as_the_same_fp32_value() -> None:
    for bits in range(0x3F800000, 0x3F800000 + 5000, 7):
        value = np.array([bits], np.uint32).view(np.float32)[0]
        assert np.float32(to_text(float(value))) == value


def test_a_text_of_several_lines_stays_one_row() -> None:
    text = TABLE.to_tsv([{"a": 1, "b": "first\nsecond\u2028third"}, {"a": 2, "b": "x"}])
    assert text == "a\tb\n1\tfirst\\nsecond\u2028third\n2\tx\n"


def test_a_table_without_rows_has_its_header() -> None:
    assert TABLE.to_tsv([]) == "a\tb\n"


@pytest.mark.parametrize("row", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"b": 2, "a": 1}])
def test_a_row_with_other_columns_is_a_bug(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="t: a row with the columns"):
        TABLE.to_tsv([row])

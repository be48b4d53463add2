"""The page's figures are those of its results, and the plots lie beside them."""

from __future__ import annotations

import json

import pytest

from benchmarks import page


def test_the_pages_tables_are_those_of_the_results() -> None:
    if not page.RESULTS.exists():
        pytest.skip("nothing is published yet")
    text = page.PAGE.read_text()
    assert page.with_figures(text, json.loads(page.RESULTS.read_text())) == text


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    results = {
        "machine": {"cpu": "X", "cores": 2, "instruction_set": "avx2", "date": "D", "load_average": [0.1], "idle": True},
        "limits": {
            "fma": [{"isa": "avx2", "threads": 1, "gfma": [1.0, 3.0, 2.0]}],
            "memory": [{"threads": 1, "gb": [4.0]}],
        },
    }
    written = page.with_figures(f"before\n{page.BEGIN}old\n{page.END}after\n", results)
    assert written.startswith(f"before\n{page.BEGIN}")
    assert written.endswith(f"{page.END}after\n")
    assert "| FP32 multiply-adds, avx2, GFMA/s | 2.0 | 2.0 |" in written
    assert "old" not in written
    with pytest.raises(ValueError, match="a page without the lines"):
        page.with_figures("no marks\n", results)

"""docs/performance.md: its figures are the tables of docs/performance/results.json, between two marks; its words are not."""

from __future__ import annotations

from pathlib import Path

from benchmarks import ROOT
from benchmarks.figures import Results
from benchmarks.table import markdown

PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "docs" / "performance" / "results.json"
BEGIN, END = "<!-- figures: written by benchmarks -->\n", "<!-- end of figures -->\n"


def with_figures(page: str, results: Results) -> str:
    """The page with these results' tables. Raises ValueError for a page without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"a page without the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}"


def publish(results: Results, page: Path = PAGE) -> None:
    page.write_text(with_figures(page.read_text(), results))

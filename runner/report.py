"""What a run found, for people: the protocol's tables, the state of its units, and where the dataset lies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from runner.protocol import ReportTable
from runner.run import Run

NARROWEST = 100
"""Columns that tables get where there is no terminal to ask."""

NUMBER = re.compile(r"[\d.]+(/\d+)?|")
"""A cell that stands to the right: a number, a share such as 3/50, or nothing."""


VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Control characters, which a terminal would obey, as their pictures: the text is a model's and may be anything."""


def console(*, stderr: bool = False) -> Console:
    """A console that never guesses: no emoji codes, no colouring of numbers, no wrapping at 80 columns in a pipe."""
    made = Console(stderr=stderr, emoji=False, highlight=False, markup=False)
    if not made.is_terminal:
        made.width = max(made.width, NARROWEST)
    return made


def rich_table(table: ReportTable) -> Group:
    """A table of the report under its title; numbers to the right."""
    rendered = Table()
    for place, column in enumerate(table.columns):
        numeric = all(NUMBER.fullmatch(str(row[place])) for row in table.rows)
        # Folded, not cut: Chinese text is one long word to a terminal.
        rendered.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        rendered.add_row(*(Text(str(cell).translate(VISIBLE)) for cell in row))
    return Group(Text(table.title, style="bold"), rendered)


def print_report(out: Console, run: Run) -> None:
    """The stage tables, what is not done, and where the rows are."""
    for table in run.protocol.report(run.experiment, run.store):
        out.print(rich_table(table))
    verdict = run.verdict()
    done = sum(stage.done for stage in verdict.stages)
    failed = sum(stage.failed for stage in verdict.stages)
    out.print(f"run      {run.paths.root} ({verdict.state}): {done} units done" + (f", {failed} set aside" if failed else ""))
    out.print(f"dataset  {run.paths.tables}: {', '.join(sorted(run.store.schemas))}")
    out.print(f"digest   {run.store.dataset_digest() or 'none before the run is finished'}")


def report_as_dict(run: Run) -> dict[str, Any]:
    tables = run.protocol.report(run.experiment, run.store)
    return {
        "run": str(run.paths.root),
        "name": run.experiment.job.name,
        "protocol": run.protocol.name,
        **run.verdict().as_dict(),
        "report": [{"title": one.title, "columns": list(one.columns), "rows": [list(row) for row in one.rows]} for one in tables],
        "dataset": str(run.paths.tables),
        "dataset_digest": run.store.dataset_digest(),
        "set_aside": list(set_aside(run)),
    }


def set_aside(run: Run) -> Iterator[dict[str, Any]]:
    """Units that the run goes on without, and why."""
    for stage in run.stages():
        for failure in run.store.failures(stage).values():
            yield {
                "stage": stage,
                "prompt_id": failure.prompt_id,
                "unit": failure.unit,
                "kind": failure.kind,
                "error": failure.error,
                "tries": failure.strikes,
            }

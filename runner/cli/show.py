"""`runner show`: what native and branch said, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from runner.cli.options import json_option, print_json, run_argument
from runner.protocol import ReportTable
from runner.report import VISIBLE, console, print_report, rich_table
from runner.run import Run, open_run
from runner.verdict import require_marked
from schemas.errors import InvalidInput

COMPARED = ("native_text", "branch_text", "native_token_ids", "branch_token_ids")
"""A table with these columns, and a row a prompt and stage, is one that can be shown side by side."""

CONTINUATIONS = ("prompt_id", "text", "token_ids")
"""A table with these columns has a continuation a row, many a prompt: its different texts are shown and how often each occurs."""


@click.command()
@run_argument
@click.argument("prompt_id", required=False)
@json_option
def show(run: PurePath, prompt_id: str | None, as_json: bool) -> None:
    """Show what RUN found: for PROMPT_ID the native and the branch text of every stage, side by side, with token IDs; without it,
    every prompt in a line. Of a protocol without such pairs of texts: for PROMPT_ID its different texts and how often it occurs;
    without it, the report.
    """
    opened = open_run(run)
    require_marked(opened.store, opened.stages())
    rows = _rows(opened)
    if prompt_id is not None:
        rows = [row for row in rows if row["prompt_id"] == prompt_id]
        if not rows:
            _require_known(opened, prompt_id)
    if as_json:
        print_json(rows)
    elif not _tables(opened, COMPARED):
        _print_continuations(opened, prompt_id, rows)
    elif prompt_id is None:
        _print_overview(opened, rows)
    else:
        _print_prompt(opened, prompt_id, rows)


def _rows(run: Run) -> list[dict[str, Any]]:
    """Rows of the table that compares texts, or else of those with a continuation a row, stage by stage, each with its stage."""
    tables = _tables(run, COMPARED) or _tables(run, CONTINUATIONS)
    return [
        {"stage": stage} | row for name in tables for stage in run.stages() for row in run.store.table(stage, name).to_pylist()
    ]


def _tables(run: Run, columns: Sequence[str]) -> list[str]:
    """Names of the run's tables that have all these columns."""
    return [name for name, schema in run.store.schemas.items() if set(columns) <= set(schema.names)]


def _require_known(run: Run, prompt_id: str) -> None:
    """Raises InvalidInput for a prompt that is not in the catalog; one without a result yet is no mistake."""
    if prompt_id not in run.record.prompts:
        raise InvalidInput(
            str(run.paths.catalog),
            "prompt_id",
            prompt_id,
            f"one of {len(run.record.prompts)} IDs, such as {next(iter(run.record.prompts))}",
        )


def _print_overview(run: Run, rows: Sequence[dict[str, Any]]) -> None:
    out = console()
    latest = {row["prompt_id"]: row for row in rows}
    lines = []
    for prompt in run.experiment.prompts:
        row = latest.get(prompt.prompt_id)
        found = ("no result yet", "") if row is None else (row["stage"], row["first_difference"] or "")
        lines.append((prompt.prompt_id, prompt.language, prompt.kind, *found, prompt.text))
    out.print(
        rich_table(ReportTable("Prompts", ("prompt", "language", "kind", "last stage", "first differing token", "text"), lines))
    )
    print_report(out, run)


def _print_prompt(run: Run, prompt_id: str, rows: Sequence[dict[str, Any]]) -> None:
    out = console()
    prompt = next(one for one in run.experiment.prompts if one.prompt_id == prompt_id)
    out.print(f"{prompt_id} ({prompt.language}, {prompt.kind}): {prompt.text}")
    if not rows:
        out.print("no result yet")
    for row in rows:
        same = row["first_difference"] is None
        title = f"stage {row['stage']}: " + (
            "no difference" if same else f"first difference at generated token {row['first_difference']}"
        )
        table = Table(title=title, title_justify="left", title_style="bold", show_lines=True)
        table.add_column("")
        table.add_column("native", ratio=1, overflow="fold")
        table.add_column("branch", ratio=1, overflow="fold")
        table.add_row("text", *(Text(row[name].translate(VISIBLE)) for name in ("native_text", "branch_text")))
        table.add_row(
            "tokens", *(_tokens(row[name], row["first_difference"]) for name in ("native_token_ids", "branch_token_ids"))
        )
        out.print(table)


def _print_continuations(run: Run, prompt_id: str | None, rows: Sequence[dict[str, Any]]) -> None:
    out = console()
    if prompt_id is None or not _tables(run, CONTINUATIONS):
        print_report(out, run)
        return
    prompt = next(one for one in run.experiment.prompts if one.prompt_id == prompt_id)
    out.print(f"{prompt_id} ({prompt.language}, {prompt.kind}): {prompt.text}")
    # What tells continuations of a stage apart is called scheme or execution, as the protocol has it.
    counts = Counter((row["stage"], row.get("scheme", row.get("execution", "")), row["text"]) for row in rows)
    lines = [(*told, count) for told, count in counts.items()]
    out.print(rich_table(ReportTable("Different texts", ("stage", "of", "text", "times"), lines)))


def _tokens(ids: Sequence[int], first_difference: int | None) -> Text:
    """Token IDs; from the first that differs on in bold."""
    text = Text()
    for ordinal, token in enumerate(ids, start=1):
        differs = first_difference is not None and ordinal >= first_difference
        text.append(f"{token} ", style="bold" if differs else "")
    return text

"""`runner audit`: what of the study holds in these runs?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner import audit as audits
from runner.audit.ledger import Entry, Ledger
from runner.cli.options import Location, json_option, print_json
from runner.report import VISIBLE, console
from runner.run import open_run
from schemas.errors import ConformanceFinding, InvalidInput

WIDEST = 160
"""Columns of the ledger where there is no terminal to ask."""


@click.command()
@click.argument("runs", nargs=-1, type=Location())
@click.option("--published", is_flag=True, help="Audit the figures that the study published as well, or alone without RUNS.")
@json_option
def audit(runs: tuple[PurePath, ...], published: bool, as_json: bool) -> None:
    """Show which claims of the study hold in the finished RUNS, with the evidence for each.

    Structural claims must hold on any checkpoint; the command ends with 4 where one fails. Empirical ones are measured, beside
    the study's figure for Flash, and decide nothing. A claim whose protocol is not among the runs is not applicable.
    """
    if not runs and not published:
        raise InvalidInput("audit", "RUNS", "none", "run directories, or --published")
    ledgers = {}
    if published:
        ledgers["study"] = audits.published()
    if runs:
        ledgers["runs"] = audits.audit([open_run(root) for root in runs])
    ledger = Ledger([entry for one in ledgers.values() for entry in one.entries])
    if as_json:
        print_json(ledger.as_dict())
    else:
        _print(console(), ledger)
    if not ledger.holds:
        click.get_current_context().exit(ConformanceFinding.exit_code)


def _print(out: Console, ledger: Ledger) -> None:
    if not out.is_terminal:
        out.width = max(out.width, WIDEST)
    for title, entries in _parts(ledger.entries):
        out.print(_table(title, entries))
    without = dict.fromkeys(entry.claim.split(".")[0] for entry in ledger.entries if entry.found == audits.NO_RUN)
    if without:
        out.print(f"no run of {', '.join(without)}: these claims are not applicable", soft_wrap=True)
    for entry in ledger.failed:
        line = f"fails: {entry.claim}: {entry.fault}" + (f" ({entry.file})" if entry.file else "")
        out.print(line.translate(VISIBLE), soft_wrap=True)
    counts = [(verdict, ledger.count(verdict)) for verdict in ("holds", "fails", "measured", "not applicable")]
    out.print("claims  " + ", ".join(f"{count} {verdict}" for verdict, count in counts if count or verdict == "fails"))


def _parts(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Entries by run and protocol, in their order, less those of protocols that no run has."""
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.found == audits.NO_RUN:
            continue
        protocol = entry.claim.split(".")[0]
        where = "published figures" if entry.run == audits.STUDY else entry.run
        parts.setdefault("across runs" if protocol == "across_runs" else f"{protocol}: {where}", []).append(entry)
    yield from parts.items()


def _table(title: str, entries: Sequence[Entry]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column, ratio in (
        ("claim", 3),
        ("section", 2),
        ("statement", 6),
        ("found", 6),
        ("expected, or Flash", 6),
        ("verdict", 2),
        ("table", 4),
    ):
        table.add_column(column, ratio=ratio, overflow="fold")
    for entry in entries:
        name = entry.claim.partition(".")[2]
        cells = (name, entry.section, entry.statement, entry.found, entry.beside, entry.verdict, entry.table)
        table.add_row(*(Text(cell.translate(VISIBLE)) for cell in cells), style="bold red" if entry.verdict == "fails" else "")
    return table

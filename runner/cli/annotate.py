"""`runner annotate`: the texts of an event-direction run to people, their labels back, and what they make together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from typing import Any

import click

from runner.annotation.files import Annotation, Labelled, agreement
from runner.annotation.form import format_of
from runner.cli.options import json_option, print_json, run_argument
from runner.protocol import ReportTable
from runner.report import console, rich_table
from runner.run import open_run
from runner.storage import storage_at
from schemas.errors import InvalidInput
from schemas.rules import UNDECIDED


@click.group()
def annotate() -> None:
    """Have two people label what the classes of an event-direction run said.

    `export` writes a blind form, `import` takes the filled one in, `score` says how far they agree and what that makes of the
    classes. Labels change tables only; nothing is executed again.
    """


@annotate.command(name="export")
@run_argument
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="A copy of the form to hand out: NAME.csv or NAME.tsv."
)
@json_option
def export_form(run: PurePath, out: Path | None, as_json: bool) -> None:
    """Write the blank form of RUN, one line an exact text, under RUN/annotations.

    The form is blind: it hides classes, counts and provisional labels. Fill the columns annotator_1 and annotator_2.
    """
    annotation = Annotation.of(open_run(run))
    form = None if out is None else format_of(out)
    written = annotation.export()
    if out is not None:
        _hand_out(out, annotation.run.store.storage.read(written[f"form.{form}"]))
        written["copy"] = out
    if as_json:
        print_json(
            {"items": len(annotation.form), "labels": list(annotation.labels), "files": {k: str(v) for k, v in written.items()}}
        )
        return
    click.echo(f"{len(annotation.form)} items, to be labelled {' or '.join(annotation.labels)}")
    for path in written.values():
        click.echo(path)


def _hand_out(out: Path, blank: bytes) -> None:
    """Write a copy of the blank form. Raises InvalidInput rather than replace a file, which may be a filled form."""
    if not out.parent.is_dir():
        raise InvalidInput(str(out), "", "no such folder", "a file in a folder that is there")
    if out.exists() and (not out.is_file() or out.read_bytes() != blank):
        raise InvalidInput(str(out), "", "another file, maybe a filled form", "a new file")
    storage_at(out).replace(out, blank)


@annotate.command(name="import")
@run_argument
@click.argument("form", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Take it in even if another filled form was taken in before.")
@json_option
def import_form(*, run: PurePath, form: Path, replace: bool, as_json: bool) -> None:
    """Check the filled FORM of RUN and keep it under RUN/annotations.

    Ends with 2 and the first fault of a form that is another run's, lacks an item or has one twice, or has an unknown label.
    """
    annotation = Annotation.of(open_run(run))
    labelled = annotation.take(form, replace=replace)
    _print_score(run, annotation, labelled, as_json=as_json)


@annotate.command()
@run_argument
@json_option
def score(run: PurePath, as_json: bool) -> None:
    """Show agreement, confusion and Cohen's kappa of RUN's annotation, and the classes by consensus label."""
    annotation = Annotation.of(open_run(run))
    labelled = annotation.labelled()
    if labelled is None:
        raise InvalidInput(
            str(annotation.run.paths.annotations), "", "no filled form", "one taken in by `runner annotate import`"
        )
    _print_score(run, annotation, labelled, as_json=as_json)


def _print_score(run: PurePath, annotation: Annotation, labelled: list[Labelled], *, as_json: bool) -> None:
    found = agreement(annotation.labels, labelled)
    provisional: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for one in labelled:
        provisional[one.item.label] += len(one.item.classes)
        decided[one.consensus or UNDECIDED] += len(one.item.classes)
    names = [*annotation.labels, *([UNDECIDED] if decided[UNDECIDED] else [])]
    kappa = None if found.kappa is None else float(found.kappa)
    if as_json:
        said: dict[str, Any] = {
            "run": str(run),
            "items": found.items,
            "agreed": found.agreed,
            "kappa": kappa,
            "confusion": [[found.confusion[one, other] for other in annotation.labels] for one in annotation.labels],
            "labels": list(annotation.labels),
            "provisional_classes": {name: provisional[name] for name in names},
            "consensus_classes": {name: decided[name] for name in names},
        }
        print_json(said)
        return
    out = console()
    rows: list[tuple[str | int, ...]] = [
        (one, *(found.confusion[one, other] for other in annotation.labels)) for one in annotation.labels
    ]
    out.print(rich_table(ReportTable("Items by both annotators", ("annotator 1 \\ 2", *annotation.labels), rows)))
    classes: list[tuple[str | int, ...]] = [(name, provisional[name], decided[name]) for name in names]
    out.print(rich_table(ReportTable("Classes by label", ("label", "provisional", "consensus"), classes)))
    undefined = "undefined: both gave one and the same label to every item"
    out.print(f"agreement  {found.agreed}/{found.items}")
    out.print(f"kappa      {undefined if kappa is None else f'{kappa:.4f}'}")
    waiting = [one for one in labelled if not one.consensus]
    if waiting:
        out.print(f"no consensus on {len(waiting)} items: {', '.join(one.form.item for one in waiting)}")

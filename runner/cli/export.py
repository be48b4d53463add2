"""`runner export`: the support tables of a run."""

from __future__ import annotations

from pathlib import PurePath

import click

from runner.cli.options import Location, json_option, print_json, run_argument
from runner.run import Run, open_run
from runner.storage import storage_at
from runner.support import tables_of
from schemas.errors import InvalidInput


@click.command()
@run_argument
@click.option("--out", type=Location(), metavar="PATH", help="Folder to write to.  [default: RUN/support]")
@json_option
def export(run: PurePath, out: PurePath | None, as_json: bool) -> None:
    """Write the support tables of the finished RUN as TSV, each computed from its dataset (docs/tables.md has their columns)."""
    opened = open_run(run)
    written = write_tables(opened, out or opened.paths.support)
    if as_json:
        print_json({"run": str(run), "tables": {name: str(path) for name, path in written.items()}})
        return
    for path in written.values():
        click.echo(path)


def write_tables(run: Run, folder: PurePath) -> dict[str, PurePath]:
    """Write every support table of the run into `folder`; table name -> file.

    Raises InvalidInput unless the run is finished: counts over a part of the units would pass for counts over all.
    """
    state = run.verdict().state
    if state != "finished":
        raise InvalidInput(str(run.paths.root), "", f"a run that is {state}", "a finished run")
    contents = [(folder / f"{table.name}.tsv", table.to_tsv(table.rows(run)).encode()) for table in tables_of(run.protocol.name)]
    storage = storage_at(folder)
    for path, data in contents:
        storage.replace(path, data)
    return {path.stem: path for path, _ in contents}

"""`runner export`: the support tables of a run."""

from __future__ import annotations

from pathlib import Path

import click

from runner.cli.options import json_option, print_json, run_argument
from runner.disk import Disk, make_directories, put_files
from runner.run import Run, open_run
from runner.support import tables_of
from schemas.errors import InvalidInput


@click.command()
@run_argument
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.  [default: RUN/support]")
@json_option
def export(run: Path, out: Path | None, as_json: bool) -> None:
    """Write the support tables of the finished RUN as TSV, each computed from its dataset (docs/tables.md has their columns)."""
    opened = open_run(run)
    written = write_tables(opened, out or opened.paths.support)
    if as_json:
        print_json({"run": str(run), "tables": {name: str(path) for name, path in written.items()}})
        return
    for path in written.values():
        click.echo(path)


def write_tables(run: Run, folder: Path) -> dict[str, Path]:
    """Write every support table of the run into `folder`; table name -> file.

    Raises InvalidInput unless the run is finished: counts over a part of the units would pass for counts over all.
    """
    state = run.verdict().state
    if state != "finished":
        raise InvalidInput(str(run.paths.root), "", f"a run that is {state}", "a finished run")
    contents = [(folder / f"{table.name}.tsv", table.to_tsv(table.rows(run)).encode()) for table in tables_of(run.protocol.name)]
    make_directories(Disk(), folder)
    put_files(Disk(), contents)
    return {path.stem: path for path, _ in contents}

"""`runner verify`: is a run what its logs say?"""

from __future__ import annotations

from pathlib import PurePath

import click

from runner.cli.options import json_option, print_json, run_argument
from runner.run import open_run
from runner.verify import verify as verify_run
from schemas.errors import ConformanceFinding


@click.command()
@run_argument
@json_option
def verify(run: PurePath, as_json: bool) -> None:
    """Check every file, key and row of RUN against its logs, and its stages against each other.

    Prints the digest of the dataset, by which two runs can be compared. Ends with 4 when something is not as it must be. What a
    kill left behind is listed and is no fault: the next resume sweeps it.
    """
    opened = open_run(run)
    result = verify_run(opened.store, opened.protocol, opened.experiment)
    if as_json:
        print_json({"run": str(run)} | result.as_dict())
    else:
        for line in result.leftovers:
            click.echo(f"left by a kill: {line}")
        for line in result.faults:
            click.echo(f"fault: {line}")
        click.echo(f"{run}: {result.units} units in {result.files} files, {result.bytes} bytes")
        click.echo(f"digest {result.digest or 'none before the run is finished'}")
        click.echo("clean" if result.clean else f"not clean: {len(result.faults)} faults")
    if not result.clean:
        click.get_current_context().exit(ConformanceFinding.exit_code)

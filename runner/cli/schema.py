"""`runner schema`: what a job file may say, and what the columns of a table mean."""

from __future__ import annotations

import click

from runner.cli.options import print_json
from schemas.job_file import json_schema
from schemas.tables import TABLES


@click.command()
@click.argument("name", type=click.Choice(["job", *TABLES]), default="job")
@click.option("--json", "as_json", is_flag=True, help="Schemas are JSON in any case.")
def schema(name: str, as_json: bool) -> None:
    """Print the JSON Schema of job files, or the columns of a result table."""
    print_json(json_schema() if name == "job" else TABLES[name].describe())

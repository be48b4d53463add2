"""Options and arguments that several commands have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value, for errors too.")
run_argument = click.argument("run", type=click.Path(path_type=Path))
job_argument = click.argument("job", type=click.Path(path_type=Path))
run_dir_option = click.option(
    "--run-dir", type=click.Path(path_type=Path), help="Where the run lies.  [default: runs/ and the name of the job]"
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace one key of the job file, such as --set fork.layer=3 or --set horizons=[4,8]; may be repeated.",
)
address_option = click.option(
    "--address",
    help="Where the work is done: 'auto' or HOST:PORT joins a Ray cluster, 'inline' works in this very process.  "
    "[default: Ray, started on this machine for this run]",
)
actors_option = click.option("--actors", type=click.IntRange(1, 4096), help="Worker processes.  [default: as many as fit]")
threads_option = click.option("--threads", type=click.IntRange(1, 256), help="Threads of each worker's decoder.")


def default_run_dir(name: str) -> Path:
    return Path("runs") / name


def spreading(actors: int | None, threads: int | None) -> list[str]:
    """--actors and --threads, as --set would say them."""
    said = {"execution.actors": actors, "execution.threads": threads}
    return [f"{key}={value}" for key, value in said.items() if value is not None]


def print_json(value: Any) -> None:
    """Print a value as JSON. An infinite margin, which JSON cannot say, becomes the text "inf"."""
    click.echo(json.dumps(_sayable(value), ensure_ascii=False, indent=1, allow_nan=False))


def _sayable(value: Any) -> Any:
    match value:
        case dict():
            return {name: _sayable(item) for name, item in value.items()}
        case list() | tuple():
            return [_sayable(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value

"""Options and arguments that several commands have."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path, PurePath
from typing import Any

import click

from runner.location import location
from runner.remote import is_head
from schemas.errors import InvalidInput
from schemas.text_file import shown

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value, for errors too.")


class Location(click.ParamType[PurePath]):
    """A path, or an address in an object store."""

    name = "location"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PurePath:
        return value if isinstance(value, PurePath) else location(value)


run_argument = click.argument("run", type=Location(), metavar="RUN")
job_argument = click.argument("job", type=click.Path(path_type=Path))
run_dir_option = click.option(
    "--run-dir",
    type=Location(),
    metavar="PATH",
    help="Where the run lies: a directory, on this machine or shared, or s3://bucket/prefix.  [default: runs/ and the name of "
    "the job]",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace one key of the job file, such as --set fork.layer=3 or --set horizons=[4,8]; may be repeated.",
)


class Address(click.ParamType[str]):
    """Where the work is done. Refused here what is none, before anything is written."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not (text in ("inline", "auto") or is_head(text) or re.fullmatch(r"[^/\s]+:\d{1,5}", text)):
            raise InvalidInput("--address", "", shown(text), "http://HOST:PORT, auto, HOST:PORT or inline")
        return text


address_option = click.option(
    "--address",
    type=Address(),
    metavar="WHERE",
    help="Where the work is done: http://HEAD:8265 has a Ray cluster carry it out, 'auto' or HOST:PORT joins one that this "
    "machine is a node of, 'inline' works in this very process.  [default: Ray, started on this machine for this run]",
)


class HeadAddress(Address):
    """The Jobs API of a cluster's head, which is where its runs can be asked for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_head(str(value)):
            raise InvalidInput("--address", "", shown(str(value)), "http://HOST:PORT of the head's dashboard")
        return str(value)


head_option = click.option(
    "--address",
    type=HeadAddress(),
    metavar="URL",
    help="The cluster that carries the run out: http://HEAD:8265.  [default: the run lies here]",
)
no_wait_option = click.option(
    "--no-wait", is_flag=True, help="On a cluster: print what was submitted, and do not follow it to its end."
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

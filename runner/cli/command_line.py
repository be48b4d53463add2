"""What all commands share: the group, errors as one line, exit codes (see runner.cli)."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from runner.cli.annotate import annotate
from runner.cli.audit import audit
from runner.cli.cancel import cancel
from runner.cli.doctor import doctor
from runner.cli.export import export
from runner.cli.logs import logs
from runner.cli.ls import ls
from runner.cli.plan import plan
from runner.cli.resume import resume
from runner.cli.retry import retry
from runner.cli.schema import schema
from runner.cli.show import show
from runner.cli.status import status
from runner.cli.submit import submit
from runner.cli.verify import verify
from runner.interrupt import Interrupted
from schemas.errors import InvalidInput, RunnerError, visible

REFUSED_BY_THE_SYSTEM = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EREMOTEIO,
        errno.ENOLCK,
    }
)
"""What a disk may say in the middle of a run: no mistake of ours, so it gets a line and no traceback."""

UNUSABLE_PATH = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG})
"""What the system says of a path that somebody named and that cannot be what it was named for: invalid input."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit codes: 0 done, 1 unexpected failure, 2 usage or invalid input, 3 finished with failed units, "
    "4 conformance verdict 'differs', 5 run busy, 75 cluster unreachable, 130 interrupted.",
)
@click.version_option(package_name="moe-conformance-runner", prog_name="runner")
def cli() -> None:
    """Run numerical-conformance experiments on a sparse mixture-of-experts decoder.

    A job file says what to run: `runner submit jobs/breadth.yaml` carries it out on this machine and leaves a dataset in
    runs/breadth. The same command, or `runner resume runs/breadth`, goes on where a run was stopped, whatever stopped it.
    """


COMMANDS = (submit, plan, status, logs, cancel, ls, show, export, annotate, audit, verify, resume, retry, doctor, schema)

for command in COMMANDS:
    cli.add_command(command)


def end_with_command(arguments: Sequence[str]) -> NoReturn:
    """Run a command and end the process with its exit code."""
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Texts are a model's and a user's: what the stream's encoding cannot say is escaped, and never an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(list(arguments), prog_name="runner", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except RunnerError as error:
        _end(error.as_dict(), as_json)
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and not as_json:
            error.show()
            sys.exit(2)
        _end({"error": "Usage", "message": error.format_message(), "exit_code": 2}, as_json)
    except (click.Abort, KeyboardInterrupt) as error:  # Abort is click's name for a KeyboardInterrupt, which stands behind it
        message = str(error.__cause__ or "") or "stopped at once"
        _end({"error": "Interrupted", "message": message, "exit_code": Interrupted.exit_code}, as_json)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough, and nothing can be told any more
        sys.exit(1)
    except OSError as error:
        _end_refused(error, as_json)
    except Exception as error:
        _bug(error, as_json)


def _end_refused(error: OSError, as_json: bool) -> NoReturn:
    """End for what the system refused: 2 when the path cannot be used, 1 when it could not do it, a bug for anything else."""
    file = str(error.filename or "")
    if error.errno in UNUSABLE_PATH:
        _end(InvalidInput(file, "", str(error.strerror).lower(), "a path that can be used").as_dict(), as_json)
    if isinstance(error, FileNotFoundError) and not _working_directory_exists():
        _end(InvalidInput(file or ".", "", "a deleted working directory", "one that exists").as_dict(), as_json)
    if error.errno not in REFUSED_BY_THE_SYSTEM:
        _bug(error, as_json)
    _end({"error": "Refused", "message": f"{file}: {error.strerror}" if file else str(error.strerror), "exit_code": 1}, as_json)


def _working_directory_exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _bug(error: Exception, as_json: bool) -> NoReturn:
    traceback.print_exception(error)
    if as_json:
        _end({"error": type(error).__name__, "message": str(error), "exit_code": 1}, as_json)
    sys.exit(1)


def _end(error: dict[str, object], as_json: bool) -> NoReturn:
    """One line and the exit code. Where stdout takes nothing any more, a full disk say, the line goes to stderr in any case."""
    code = int(str(error["exit_code"]))
    told = False
    try:
        sys.stdout.flush()
        if as_json:
            click.echo(json.dumps(error, ensure_ascii=False))
            told = True
    except OSError:
        # What is still buffered goes nowhere; Python would try once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not told:
        click.echo(f"runner: {visible(str(error['message']))}", err=True)
    sys.exit(code)

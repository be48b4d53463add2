"""How the process begins and ends: environment, Ctrl-C, the streams it writes to. Each test starts one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest
from small_job import Command

import runner

ROOT = str(Path(runner.__file__).parents[1])


MAIN = "from runner.cli import main; main()"


def start(
    *arguments: str, program: str = MAIN, environment: Mapping[str, str] | None = None, stdout: int | IO[bytes] = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", program, *arguments]
    variables = {**os.environ, "PYTHONPATH": ROOT, **(environment or {})}
    return subprocess.run(command, env=variables, stdout=stdout, stderr=subprocess.PIPE, check=False)


@pytest.mark.parametrize("command", ["doctor", "submit job.yaml --address inline"])
def test_kernels_that_do_not_exist_are_refused_before_anything_is_written(run: Command, command: str) -> None:
    ended = start(*command.split(), environment={"RUNNER_ISA": "abacus"})
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"runner: environment: RUNNER_ISA: found 'abacus', allowed: scalar, ")
    assert ended.stderr.count(b"\n") == 1
    assert not Path("runs").exists()


STOPPED_WHILE_IMPORTING = """
import os, signal, sys
class Press:
    def find_spec(self, name, path, target=None):
        if name == "pyarrow":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from runner.cli import main
main()
"""


def test_ctrl_c_while_modules_are_imported_is_one_line() -> None:
    ended = start("schema", program=STOPPED_WHILE_IMPORTING)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"runner: stopped at once\n")


def test_ctrl_c_is_as_before_once_modules_are_imported(run: Command) -> None:
    before = signal.getsignal(signal.SIGINT)
    run("--version")
    assert signal.getsignal(signal.SIGINT) is before


def test_what_an_encoding_cannot_say_is_escaped(submitted: Path) -> None:
    ended = start("show", str(submitted), environment={"PYTHONIOENCODING": "latin-1"})
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"\u670b\u53cb" in ended.stdout.replace(b"\n", b"")


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_full_disk_below_stdout_is_one_line(submitted: Path, options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = start("show", str(submitted), *options, stdout=full)
    assert (ended.returncode, ended.stderr) == (1, b"runner: No space left on device\n")


def test_a_deleted_working_directory_is_named(run: Command, tmp_path: Path) -> None:
    program = f"import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); {MAIN}"
    ended = start("submit", str(tmp_path / "job.yaml"), "--address", "inline", program=program)
    assert ended.returncode == 2
    assert b"found a deleted working directory" in ended.stderr
    assert ended.stderr.count(b"\n") == 1

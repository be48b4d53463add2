"""Fuzzes the decoder's promise: a row's bits depend on its own state, tokens and intervention, and on nothing else.

    python tests/kernels/fuzz.py --seconds 600 --seed 1

plays random cases of mixed rows, positions, chunks, forks, interventions, captures and threads, all rows of a round in one
step, with each instruction set this CPU has, and compares every row with the same row run alone on one thread with the scalar
kernels, in another process. A difference ends it with exit code 1 and a line that says which part of which row differs and how to
play the case again: `--case SEED` plays one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [path for path in (str(HERE), str(HERE.parent), str(ROOT)) if path not in sys.path]

from fuzz_case import draw_case  # noqa: E402
from fuzz_models import MOTE, Model, mote, odd_model  # noqa: E402
from fuzz_play import Digests, Player  # noqa: E402

import kernels  # noqa: E402

CASES_A_MODEL = 12
"""A block of cases shares a random checkpoint; the first of each block plays the embedded one."""


class Ended(Exception):
    """A worker's process ended; its traceback stands on standard error."""


class Worker:
    """A process with one instruction set that plays cases one way. A context manager."""

    def __init__(self, isa: str, *, alone: bool) -> None:
        self.isa = isa
        arguments = [sys.executable, __file__, "--worker", "alone" if alone else "together"]
        environment = {**os.environ, "RUNNER_ISA": isa}
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, case: int, model: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([case, model]) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Digests]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Ended(f"the {self.isa} process ended with code {self._process.wait()}")
        answer: dict[str, Digests] = json.loads(line)
        return answer


def open_model(case: int, directory: str) -> Model:
    return mote() if directory == MOTE else odd_model(case // CASES_A_MODEL, Path(directory))


def most_rows(directory: str) -> int:
    return 9 if directory == MOTE else 70


def work(how: str) -> None:
    """Play cases named on standard input, one line each, until it ends."""
    players: dict[str, Player] = {}
    for line in sys.stdin:
        case, directory = json.loads(line)
        if directory not in players:
            players = {name: player for name, player in players.items() if name == MOTE}
            players[directory] = Player(open_model(case, directory), alone=how == "alone")
        player = players[directory]
        print(json.dumps(player.play(draw_case(case, player.model, most_rows(directory)))), flush=True)


def first_difference(alone: dict[str, Digests], together: dict[str, Digests]) -> str | None:
    """ "round R, row N: logits, state", of the earliest round that differs; None when nothing does."""
    for key in sorted(alone, key=lambda key: int(key.split(".")[0])):
        if alone[key] != together.get(key):
            other = together.get(key, {})
            parts = sorted(name for name in alone[key].keys() | other.keys() if alone[key].get(name) != other.get(name))
            number, row = key.split(".")
            return f"round {number}, row {row}: {', '.join(parts)}"
    return None


class Fuzzer:
    """The processes and the random checkpoints. A context manager."""

    def __init__(self, isas: Sequence[str]) -> None:
        self._stack = ExitStack()
        self._isas = isas

    def __enter__(self) -> Fuzzer:
        self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fuzz-")))
        self._alone = self._stack.enter_context(Worker("scalar", alone=True))
        self._together = [self._stack.enter_context(Worker(isa, alone=False)) for isa in self._isas]
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def play(self, case: int) -> tuple[list[str], int]:
        """Differences found, a line each, and how many row results were compared."""
        model = MOTE if case % CASES_A_MODEL == 0 else str(self._directory / f"odd-{case // CASES_A_MODEL}")
        open_model(case, model)  # written here, so that processes do not write it at the same time
        # the embedded checkpoint is the slow one for scalar kernels, which play alone already
        together = [worker for worker in self._together if worker.isa != "scalar" or model != MOTE]
        try:
            for worker in (self._alone, *together):
                worker.send(case, model)
            expected = self._alone.receive()
            found = [(worker.isa, first_difference(expected, worker.receive())) for worker in together]
        except (Ended, BrokenPipeError) as error:
            return [f"case {case}: {error}; {_again(case)}"], 0
        return [f"case {case}, {isa}, {line}; {_again(case)}" for isa, line in found if line], len(expected) * len(together)


def _again(case: int) -> str:
    return f"again with: python {Path(__file__).relative_to(ROOT)} --case {case}"


def cases(seed: int, seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        yield seed * 1_000_000 + number
        number += 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="cases SEED * 1,000,000 and on are played")
    parser.add_argument("--case", type=int, help="play this case only")
    parser.add_argument(
        "--isa", nargs="+", choices=kernels.instruction_sets(), help="instruction sets to try; default: all this CPU has"
    )
    parser.add_argument("--worker", choices=("alone", "together"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.worker)
        return 0
    played = compared = 0
    with Fuzzer(options.isa or kernels.instruction_sets()) as fuzzer:
        for case in [options.case] if options.case is not None else cases(options.seed, options.seconds):
            lines, rows = fuzzer.play(case)
            played, compared = played + 1, compared + rows
            if lines:
                print(*lines, sep="\n")
                return 1
    print(f"{played} cases, {compared} row results, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())

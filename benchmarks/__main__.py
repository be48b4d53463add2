"""`python -m benchmarks`: measure everything, print a table, write results.json and the plots made from it.

The limits of the machine are measured in the same run, and figures stand beside their share of them. Peers are optional: those
whose packages the Python named by --peers-python lacks are named as absent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import kernels
from benchmarks import ROOT, disk, machine
from benchmarks.page import RESULTS, publish
from benchmarks.plot import write_plots
from benchmarks.projection import project
from benchmarks.synthetic import write_zero_flash
from benchmarks.table import print_tables

NATIVE = ROOT / "build" / "benchmarks"

ROUNDS = 3
"""Of decoding, in which ours and the peers take turns."""


@dataclass(frozen=True)
class Peer:
    """packages: what its module under benchmarks.peers needs. arguments: that it gets beside the workload's. rounds: of decoding
    that it takes part in, from the first on.
    """

    module: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    rounds: int = ROUNDS


def _llama_cpp(file: str) -> Peer:
    return Peer("llama_cpp", ("llama_cpp", "gguf"), ("--file", file))


PEERS = {
    "transformers, FP32": Peer("transformers", ("torch", "transformers"), rounds=1),  # takes minutes and is far from ours
    "llama.cpp, FP32": _llama_cpp("FP32"),
    "llama.cpp, BF16": _llama_cpp("BF16"),
    "llama.cpp, Q8_0": _llama_cpp("Q8_0"),
}
"""By the name that the tables give it, which says what it holds weights in."""

PARTS = {"timings", "generate"}
"""What a program that times a decoder prints lists of timings under."""

Results = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a run of the benchmarks is told. quick: fewer repetitions, to see that everything works. busy: the machine is, and
    native programs count the time that they computed.
    """

    threads: int
    quick: bool
    busy: bool
    scratch: Path
    peers_python: str

    @property
    def repetitions(self) -> int:
        return 2 if self.quick else 7

    @property
    def thread_counts(self) -> list[str]:
        return [str(threads) for threads in sorted({1, self.threads})]


def run_json(command: Sequence[object], **environment: str) -> Any:
    """What a program prints, as JSON. Its errors go where ours go."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


def own(module: str, *arguments: str | Path, **environment: str) -> Any:
    return run_json([sys.executable, "-m", f"benchmarks.{module}", *arguments], **environment)


def native(program: str, settings: Settings, *arguments: str) -> Any:
    command = [NATIVE / program, "--threads", str(settings.threads), "--repetitions", str(settings.repetitions)]
    return run_json([*command, "--cpu-clock", str(int(settings.busy)), *arguments])


def limits(settings: Settings) -> Results:
    return {"limits": native("limits", settings)}


def products(settings: Settings) -> Results:
    return {"products": native("products", settings, "--quick", str(int(settings.quick)))}


def disk_bandwidth(settings: Settings) -> Results:
    return {"disk": disk.measure(settings.scratch, 512 if settings.quick else 4096)}


def decoding(settings: Settings) -> Results:
    """Ours and the peers by turns, in rounds: a machine that is faster at one time than at another is so for each."""
    programs, found = _decoders(settings), dict[str, Any]()
    absent = {name: why for name, peer in PEERS.items() if (why := _absence(settings, peer.packages))}
    for turn in range(1 if settings.quick else ROUNDS):
        for name in [name for name in programs if name not in absent and (name not in PEERS or turn < PEERS[name].rounds)]:
            print(f"measuring decoding, round {turn + 1}: {name}", file=sys.stderr, flush=True)
            try:
                _add_round(found, name, programs[name]())
            except subprocess.CalledProcessError as error:
                if name not in PEERS:
                    raise
                absent[name] = f"ended with code {error.returncode} in round {turn + 1}"
    # few tokens, as it takes long and is compared with nothing closely
    scalar = own("decoding", "--threads", "1", "--rows", "1", "8", "--steps", "8", "--repetitions", "1", RUNNER_ISA="scalar")
    ours = [run for name, run in found.items() if name not in PEERS]
    return {"decoding": [*ours, scalar], "peers": {name: found.get(name) or {"absent": absent[name]} for name in PEERS}}


def _absence(settings: Settings, packages: Sequence[str]) -> str | None:
    """Why the peers' Python cannot import these; None where it can."""
    try:
        imports = subprocess.run([settings.peers_python, "-c", f"import {', '.join(packages)}"], capture_output=True, check=False)
    except OSError as error:
        return f"{settings.peers_python}: {error.strerror}"
    return f"no {' and '.join(packages)} in {settings.peers_python}" if imports.returncode else None


def _add_round(found: dict[str, Any], name: str, run: Any) -> None:
    """Adds the repetitions of one more run of a program to those that it has."""
    if name not in found:
        found[name] = run
        return
    for part in PARTS & run.keys():
        for timing, more in zip(found[name][part], run[part], strict=True):
            timing["rows_per_second"] += more["rows_per_second"]


def _decoders(settings: Settings) -> dict[str, Callable[[], Any]]:
    """Every instruction set this CPU has; fp32 numerics, whose tokens are the peers' too; the peers."""
    common = ("--threads", *settings.thread_counts, "--repetitions", str(1 if settings.quick else 3))
    programs: dict[str, Callable[[], Any]] = {
        isa: partial(own, "decoding", *common, RUNNER_ISA=isa) for isa in kernels.instruction_sets() if isa != "scalar"
    }
    programs["fp32"] = partial(own, "decoding", *common, "--numerics", "fp32")
    for name, peer in PEERS.items():
        command = [settings.peers_python, "-m", f"benchmarks.peers.{peer.module}", kernels.builtin_checkpoint()]
        programs[name] = partial(run_json, [*command, *peer.arguments, *common])
    return programs


def sweep(settings: Settings) -> Results:
    return {"sweep": own("sweep", "--threads", *settings.thread_counts, "--repetitions", "1" if settings.quick else "3")}


def branches(_: Settings) -> Results:
    return {"branches": own("branches")}


def full_geometry(settings: Settings) -> Results:
    with tempfile.TemporaryDirectory(dir=settings.scratch) as directory:
        write_zero_flash(Path(directory) / "flash")
        return {"full_geometry": own("full_geometry", Path(directory) / "flash", "--threads", str(settings.threads))}


MEASUREMENTS: dict[str, Callable[[Settings], Results]] = {
    "limits": limits,
    "disk": disk_bandwidth,
    "products": products,
    "decoding": decoding,
    "sweep": sweep,
    "branches": branches,
    "full_geometry": full_geometry,
}


def save(results: Any, directory: Path) -> None:
    (directory / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="beside 1; default: all cores")
    parser.add_argument(
        "--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), help="measure these; limits always"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, to see that it works")
    parser.add_argument("--busy", action="store_true", help="measure on a machine that does other things; the results say so")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "benchmarks" / "results",
        help="for results.json and plots; docs/performance publishes them",
    )
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / "build" / "benchmarks", help="on the disk to measure; 4 GB for a while"
    )
    parser.add_argument("--peers-python", default=sys.executable, help="Python that has the peers' packages")
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="measure nothing, print the table of a results.json")
    options = parser.parse_args(arguments)
    if options.table:
        print_tables(json.loads(options.table.read_text()))
        return 0
    try:
        if not options.busy:
            machine.require_idle()
    except machine.Busy as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    results: Results = {"machine": machine.describe(), "quick": options.quick}
    subprocess.run(["make", "-s", "-C", ROOT / "benchmarks" / "native"], check=True)
    settings = Settings(options.threads, options.quick, options.busy, options.scratch, options.peers_python)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, measure in MEASUREMENTS.items():
        if name in options.only or name == "limits":
            print(f"measuring {name}", file=sys.stderr, flush=True)
            results |= measure(settings)
            save(results, options.out)
    if {"products", "sweep", "full_geometry", "disk"} <= results.keys():
        results["projection"] = project(results)
        save(results, options.out)
    write_plots(results, options.out)
    if options.out.resolve() == RESULTS.parent:
        publish(results)
    print_tables(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

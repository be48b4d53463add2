"""What does the work, wherever it runs: one opened checkpoint, one decoder, one tokenizer, and a lease at a time."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import kernels
from actors.content import content_of
from actors.environment import environment
from actors.executor import Done, Execute, Failed, FailureKind, Session, WorkerReport, WorkerSpec
from actors.tokenizer import CheckpointTokenizer
from schemas.errors import ConformanceFinding, InvalidInput
from schemas.unit import Lease, UnitResult

REPORTED_PACKAGES = ("moe-conformance-runner", "numpy", "pyarrow", "tokenizers", "ray")


@dataclass(frozen=True)
class Outcome:
    """What became of a lease, as plain data, so that no exception has to survive a journey between processes.

    results: in the order of the lease's units, or None with `kind`, `error` (one line) and `detail` (the traceback).
    """

    seconds: float
    results: Sequence[UnitResult] | None = None
    kind: FailureKind = "error"
    error: str = ""
    detail: str = ""

    def event(self, lease: Lease, worker: str) -> Done | Failed:
        if self.results is not None:
            return Done(lease, self.results, worker, self.seconds)
        return Failed(lease, self.kind, self.error, self.detail, worker)


class Worker:
    """Opens what a `WorkerSpec` names, once. Raises InvalidInput for a checkpoint or tokenizer that cannot be used."""

    def __init__(self, spec: WorkerSpec, name: str) -> None:
        self.name = name
        directory = kernels.builtin_checkpoint() if spec.checkpoint == "builtin" else spec.checkpoint
        try:
            checkpoint = kernels.Checkpoint.open(directory)
        except kernels.CheckpointError as error:
            raise InvalidInput(error.file, error.key, error.found, error.allowed) from error
        self._tokenizer = CheckpointTokenizer(checkpoint.directory, checkpoint_vocab_size=checkpoint.config.vocab_size)
        decoder = kernels.Decoder(checkpoint, threads=spec.threads, numerics=spec.numerics)
        self.session = Session(checkpoint, decoder, self._tokenizer)

    def report(self, *, with_content: bool = False) -> WorkerReport:
        """What it has; with the digest of the weights only if asked for, as they are read for it."""
        return WorkerReport(
            worker=self.name,
            host=platform.node(),
            pid=os.getpid(),
            build_id=kernels.BUILD_ID,
            cpu_features=kernels.cpu_features(),
            instruction_set=kernels.instruction_set(),
            checkpoint_identity=self.session.checkpoint.identity,
            tokenizer_identity=self._tokenizer.identity,
            versions={"python": platform.python_version()} | _package_versions(),
            threads=self.session.decoder.threads,
            environment=environment(),
            checkpoint_content=content_of(self.session.checkpoint) if with_content else None,
        )

    def run(self, execute: Execute, lease: Lease) -> Outcome:
        """Execute a lease; whatever `execute` raises becomes an Outcome, so that the worker lives on."""
        start = time.perf_counter()
        try:
            results = execute(self.session, lease.units)
            if [result.key for result in results] != [unit.key for unit in lease.units]:
                raise RuntimeError(f"{execute.__module__}.{execute.__qualname__} gave results for other units than it was handed")
        except Exception as error:
            kind: FailureKind = "error"
            if isinstance(error, MemoryError):
                kind = "memory"
            elif isinstance(error, ConformanceFinding):
                kind = "finding"
            return Outcome(time.perf_counter() - start, None, kind, one_line(error), traceback.format_exc())
        return Outcome(time.perf_counter() - start, results)


def one_line(error: BaseException) -> str:
    """An exception as one line: its type (where the message does not speak for itself) and the first line of its message."""
    lines = str(error).strip().splitlines()
    if isinstance(error, ConformanceFinding | InvalidInput) and lines:
        return lines[0]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _package_versions() -> dict[str, str]:
    versions = {}
    for package in REPORTED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # a source checkout is not an installed distribution
            continue
    return versions

"""What the planner, the driver and the reports need of a protocol: stages, units, work, checks.

A protocol is a small module in `runner/protocols/`. It decides what the units of a stage are and what is done for
each; when, where and how often that happens is the driver's business, and the bits must not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

import kernels
from actors.executor import Execute
from schemas.catalog import Prompt
from schemas.job import Job
from schemas.job_file import JobFile
from schemas.unit import Unit


@dataclass(frozen=True)
class Experiment:
    """What a run is about, resolved: everything that a unit's meaning may be made of."""

    job: Job
    prompts: Sequence[Prompt]
    checkpoint_identity: str
    tokenizer_identity: str


class Committed(Protocol):
    """Reader of what a run's commit logs name; never sees a file that no log names."""

    def table(self, stage: str, table: str) -> pa.Table:
        """Rows of all committed units of a stage, in plan order whatever the order of arrival; if none, empty with its schema."""

    def units(self, stage: str) -> frozenset[str]:
        """Keys of the committed units of a stage."""


@dataclass(frozen=True)
class ReportTable:
    """A table for people: what a run found. Cells are text or numbers, a row as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


class ExperimentProtocol(Protocol):
    """One of the study's experiments; a module with these names will do."""

    @property
    def name(self) -> str: ...

    @property
    def execute(self) -> Execute:
        """Importable function; runs in the worker."""

    @property
    def needs_complete(self) -> Mapping[str, Sequence[str]]:
        """Stage -> earlier stages of which it needs every unit, as its units are chosen among all their results.

        Such a stage is not planned while a unit of them is set aside: once that is retried, other units would be chosen, and
        what was committed would not be planned any more. Not here are stages in which a unit that is set aside only leaves out
        units of its own prompt, and a later success only adds them.
        """

    def schemas(self) -> Mapping[str, pa.Schema]:
        """Table name -> schema of what `execute` returns for each unit."""

    def preflight(self, job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
        """Raises InvalidInput for a job that this checkpoint cannot run: a layer it lacks, a horizon beyond its positions.

        prompt_tokens: prompt ID -> number of tokens, none of them 0.
        """

    def stages(self, job: Job) -> Sequence[str]:
        """Names of the stages in the order in which they run; a name is part of file names: lower case, digits, '-', '_'."""

    def units(self, experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
        """All units of a stage, in dataset order. Called when every earlier stage has ended; may read what these committed."""

    def check(self, experiment: Experiment, committed: Committed) -> list[str]:
        """Facts that must hold between committed rows on any checkpoint (a later stage's first tokens equal the earlier stage's).

        One line a violation; [] where all hold.
        """

    def report(self, experiment: Experiment, committed: Committed) -> list[ReportTable]:
        """What the committed rows say; of an unfinished run, what they say so far."""

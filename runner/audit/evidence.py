"""What the claims about a run are counted from: its rows, each with the file it stands in, and its checkpoint where it is at
hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import kernels
from actors.tokenizer import CheckpointTokenizer
from runner.preflight import open_checkpoint
from runner.run import Run
from schemas.errors import InvalidInput

FILE = "file of the row"
"""Key under which a row has the path of its data file; no column is called so."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """A run opened to be audited. Nothing is read before it is asked for."""

    run: Run

    def rows(self, table: str, *stages: str) -> list[Row]:
        """Committed rows of a table in these stages, of all if none is named, in plan order."""
        found: list[Row] = []
        for stage in stages or self.run.stages():
            for path, rows in self.run.store.pieces(stage, table):
                found += [row | {FILE: str(path)} for row in rows.to_pylist()]
        return found

    @cached_property
    def prompts(self) -> list[str]:
        """IDs of all prompts that the run is about."""
        return [prompt.prompt_id for prompt in self.run.experiment.prompts]

    @cached_property
    def checkpoint(self) -> kernels.Checkpoint | None:
        """The run's checkpoint, or None where its directory is gone or holds another one now."""
        try:
            checkpoint = open_checkpoint(self.run.job_file.checkpoint)
        except InvalidInput:
            return None
        return checkpoint if checkpoint.identity == self.run.record.checkpoint_identity else None

    @cached_property
    def tokenizer(self) -> CheckpointTokenizer | None:
        """The checkpoint's tokenizer, or None as for the checkpoint."""
        if self.checkpoint is None:
            return None
        return CheckpointTokenizer(self.checkpoint.directory, checkpoint_vocab_size=self.checkpoint.config.vocab_size)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Ordinal, from 1, of the first token in which two continuations differ; None where none does, as far as both go."""
    return next((ordinal for ordinal, (a, b) in enumerate(zip(one, other, strict=False), start=1) if a != b), None)


def grouped(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """Rows by the value of a column, or by the tuple of several."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)].append(row)
    return groups

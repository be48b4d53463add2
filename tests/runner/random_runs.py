"""Runs on a random fp4fp8 checkpoint of another geometry than the embedded one: 4 experts a token make 24 orders and 12 classes
of scheme B, so that whole protocols take a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from oracle.cases import random_case
from oracle.geometry import SMALL, Geometry

from actors.inline import InlineExecutor
from runner.interrupt import Interrupt
from runner.preflight import prepare
from runner.progress import Silent
from runner.run import Run, carry_out, make_executor
from schemas.job_file import load_job

GEOMETRY = replace(SMALL, num_experts_per_tok=4)
LAYERS = GEOMETRY.num_hidden_layers
CLASSES = 12
CATALOG = "prompt_id\tlanguage\tkind\ttext\nen-1\ten\tordinary\twhy the sheep\nen-2\ten\tordinary\tMorning light\n"


def write_checkpoint(directory: Path, geometry: Geometry = GEOMETRY) -> Path:
    """The checkpoint and a tokenizer of single characters: 96 of ASCII, a line feed among them, then words in brackets."""
    random_case(directory, "fp4fp8", geometry)
    characters = ["\n", *map(chr, range(32, 127))]
    vocabulary = characters + [f"<{place}>" for place in range(len(characters), geometry.vocab_size)]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": {text: place for place, text in enumerate(vocabulary)}, "merges": []},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    return directory


@dataclass(frozen=True)
class RandomRuns:
    """Carries jobs out on one checkpoint, each in a folder of its own below `folder`."""

    checkpoint: Path
    folder: Path

    def job(self, name: str, content: Mapping[str, Any], catalog: str = CATALOG) -> Path:
        """A job file with its catalog."""
        where = self.folder / name
        where.mkdir(exist_ok=True)
        (where / "prompts.tsv").write_text(catalog, encoding="utf-8")
        head = {"schema_version": 1, "name": "random", "checkpoint": str(self.checkpoint), "catalog": "prompts.tsv"}
        path = where / "job.yaml"
        path.write_text(yaml.safe_dump(head | dict(content)), encoding="utf-8")
        return path

    @staticmethod
    def event_direction() -> dict[str, Any]:
        """The content of a small event-direction job."""
        return {
            "protocol": "event_direction",
            "fork": {"layer": 3},
            "horizon": 4,
            "replay_horizon": 9,
            "block": 5,
            "sample": {"per_label": 2},
            "rules": {"schema_version": 1, "rules": [{"label": "money", "words": ["$"]}]},
        }

    def run(self, name: str, content: Mapping[str, Any], *, catalog: str = CATALOG, overrides: Sequence[str] = ()) -> Run:
        return submit(self.job(name, content, catalog), self.folder / name / "run", overrides)


def submit(job: Path, root: Path, overrides: Sequence[str] = ()) -> Run:
    """Carry a job out inline, without Ray."""
    prepared = prepare(load_job(job, overrides))
    executor = make_executor(prepared, "inline")
    assert isinstance(executor, InlineExecutor)
    return carry_out(prepared, root, executor, progress=Silent(), interrupt=Interrupt(lambda: None))


@dataclass(frozen=True)
class Changed:
    """Committed rows of a run with one value of one row replaced: what `check` must find.

    Implements `runner.protocol.Committed`.
    """

    run: Run
    table_name: str
    column: str
    value: Any
    row: Callable[[Mapping[str, Any]], bool] = lambda row: True

    def table(self, stage: str, table: str) -> pa.Table:
        found = self.run.store.table(stage, table)
        if table != self.table_name:
            return found
        rows = found.to_pylist()
        for row in rows:
            if self.row(row):
                row[self.column] = self.value
                break
        return pa.Table.from_pylist(rows, schema=found.schema)

    def units(self, stage: str) -> frozenset[str]:
        return self.run.store.units(stage)


def violations(run: Run, committed: Any = None) -> list[str]:
    """What the protocol's check says of the run's rows, or of others."""
    return run.protocol.check(run.experiment, committed or run.store)


def dataset(run: Run) -> dict[str, bytes]:
    """Path below tables/ -> bytes."""
    return {
        path.relative_to(run.paths.tables).as_posix(): path.read_bytes() for path in sorted(run.paths.tables.rglob("*.parquet"))
    }

"""What the planner's side of both endpoint substitutions shares: one stage, a unit a prompt, the class a job names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import kernels
from runner.protocol import Experiment, ReportTable
from runner.protocols.common import prompt_meaning, shared_meaning
from schemas.errors import InvalidInput
from schemas.job_file import JobFile
from schemas.table import TableSpec
from schemas.unit import Unit

STAGE = "control"


def check_class(job: JobFile, structural_class: int | None, config: kernels.Config) -> None:
    """Raises InvalidInput for a class that scheme B does not have with this checkpoint's experts a token."""
    count = math.factorial(config.num_experts_per_tok) // 2
    if structural_class is not None and structural_class >= count:
        allowed = f"0..{count - 1}, the classes of {config.num_experts_per_tok} experts a token"
        raise InvalidInput(str(job.path), "fork.structural_class", str(structural_class), allowed)


def one_unit_a_prompt(experiment: Experiment, specs: Sequence[TableSpec]) -> list[Unit]:
    shared = shared_meaning(experiment, specs)
    return [
        Unit(STAGE, prompt.prompt_id, shared | prompt_meaning(prompt), payload={"text": prompt.text}, group=prompt.prompt_id)
        for prompt in experiment.prompts
    ]


def by_prompt(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Prompt ID -> its rows, in their order; none for a prompt without rows."""
    groups: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["prompt_id"]].append(row)
    return groups


def separation(row: Mapping[str, Any]) -> str:
    """Whether the control shows a real difference: without one, branch and native say the same and only bits differ."""
    return f"from token {row['first_difference']}" if row["separated"] else "no"


def chosen(rows: Sequence[Mapping[str, Any]]) -> list[ReportTable]:
    """The classes that were preferred and cannot serve; no table where there was none."""
    lines = [(row["prompt_id"], row["structural_class"], row["passed_over"]) for row in rows if row["passed_over"]]
    return [ReportTable("Classes passed over", ("prompt", "class taken", "because"), lines)] if lines else []

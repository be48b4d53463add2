"""Event direction (study 2.4.4, 3.3, 3.4): every class of one fork continued, a stratified sample carried on and replayed twice.

Stage "native" traces the fork. "classes" continues each class. The rules of the job label what they said, which picks the sample;
"replay-1" and "replay-2" execute it from the beginning, at different times and maybe on different hosts, and must agree in every
token. What people say of the texts comes later, by `runner annotate`, and changes tables only: no unit depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, prompt_meaning, shared_meaning
from runner.protocols.event_direction_checks import class_violations, fork_violations, replay_violations
from runner.protocols.event_direction_execution import execute
from runner.protocols.event_direction_sample import CLASSES_STAGE, Item, Stratum, class_rows, items, strata
from schemas.job import Job
from schemas.job.event_direction import EventDirectionJob
from schemas.job_file import JobFile
from schemas.tables.event_direction import EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_FORKS, EVENT_DIRECTION_REPLAYS
from schemas.unit import Unit

name = "event_direction"

SPECS = (EVENT_DIRECTION_FORKS, EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_REPLAYS)

RUNS = {"replay-1": 1, "replay-2": 2}
"""Stage -> which of the two executions it is. Stages, so that no two executions of a branch are ever in one lease."""

STAGES = ("native", CLASSES_STAGE, *RUNS)

needs_complete: Mapping[str, Sequence[str]] = dict.fromkeys(RUNS, (CLASSES_STAGE,))
"""A stratum is drawn from all classes of its prompt."""

SHOWN_ITEMS = 20


def schemas() -> Mapping[str, pa.Schema]:
    return {spec.name: spec.schema for spec in SPECS}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    own = event_direction(job.job)
    check_job(job, config)
    job.check_layer("fork.layer", own.fork.layer, config.num_hidden_layers)
    check_positions(job, "replay_horizon", config, prompt_tokens, own.replay_horizon)


def stages(job: Job) -> Sequence[str]:
    return STAGES


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """native: a unit a prompt. classes: blocks of each prompt's classes. replay-1, replay-2: a unit a sampled class."""
    job = event_direction(experiment.job)
    shared = shared_meaning(experiment, SPECS)
    own: dict[str, list[dict[str, Any]]] = {}
    if stage in RUNS:
        for stratum in sample(job, committed):
            own.setdefault(stratum.prompt_id, []).extend(
                {"structural_class": one, "run": RUNS[stage], "horizon": job.replay_horizon} for one in stratum.drawn
            )
    elif stage == CLASSES_STAGE:
        for row in forks(committed, "native"):
            own[row["prompt_id"]] = [
                {"first_class": first, "classes": min(job.block, row["structural_classes"] - first), "horizon": job.horizon}
                for first in range(0, row["structural_classes"], job.block)
            ]
    else:
        own = {prompt.prompt_id: [{"first_class": 0, "classes": 0, "horizon": job.horizon}] for prompt in experiment.prompts}
    return [
        Unit(
            stage, prompt.prompt_id, shared | one | prompt_meaning(prompt), payload={"text": prompt.text}, group=prompt.prompt_id
        )
        for prompt in experiment.prompts
        for one in own.get(prompt.prompt_id, ())
    ]


def sample(job: EventDirectionJob, committed: Committed) -> list[Stratum]:
    """The strata of the job's sample by provisional labels."""
    return strata(job, items(class_rows(committed), job.rules))


def forks(committed: Committed, *of: str) -> list[dict[str, Any]]:
    return [row for stage in of for row in committed.table(stage, EVENT_DIRECTION_FORKS.name).to_pylist()]


def replays(committed: Committed) -> list[dict[str, Any]]:
    """Rows of event_direction_replays: the first executions, then the second ones."""
    return [row for stage in RUNS for row in committed.table(stage, EVENT_DIRECTION_REPLAYS.name).to_pylist()]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """One fork a prompt, equal states with equal futures, and executions of one branch that agree in every token."""
    job = event_direction(experiment.job)
    found, rows = forks(committed, "native", CLASSES_STAGE), class_rows(committed)
    return [
        *fork_violations(found),
        *class_violations(found, rows, job.horizon),
        *replay_violations(rows, replays(committed), job.replay_horizon),
    ]


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    job = event_direction(experiment.job)
    found = items(class_rows(committed), job.rules)
    total = {prompt: sum(len(item.classes) for item in found if item.prompt_id == prompt) for prompt in _prompts(found)}
    texts = [
        (item.prompt_id, f"{len(item.classes)}/{total[item.prompt_id]}", item.label, item.text) for item in found[:SHOWN_ITEMS]
    ]
    more = f", the first {SHOWN_ITEMS} of {len(found)}" if len(found) > SHOWN_ITEMS else ""
    drawn = [
        (
            stratum.prompt_id,
            stratum.label,
            f"{len(stratum.eligible)}/{total[stratum.prompt_id]}",
            " ".join(map(str, stratum.drawn)),
            warning(stratum, job.sample.per_label),
        )
        for stratum in strata(job, found)
    ]
    return [
        ReportTable(f"Unique continuations{more}", ("prompt", "classes", "provisional label", "text"), texts),
        ReportTable("Sample by provisional label", ("prompt", "label", "classes", "drawn", "warning"), drawn),
        _replay_table(committed),
    ]


def warning(stratum: Stratum, wanted: int) -> str:
    """What is to be said of a stratum that has fewer classes than are to be drawn; "" of others."""
    short = len(stratum.eligible) < wanted
    return f"{len(stratum.eligible)} instead of {wanted}: there are no more" if short else ""


def _replay_table(committed: Committed) -> ReportTable:
    executions: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
    for row in replays(committed):
        executions.setdefault((row["prompt_id"], row["structural_class"]), {})[row["run"]] = row
    rows = []
    for (prompt, one), runs in executions.items():
        done = [runs[run] for run in RUNS.values() if run in runs]
        both = len(done) == len(RUNS)
        same = "yes" if both and done[0]["token_sha256"] == done[1]["token_sha256"] else "no" if both else "not yet"
        rows.append((prompt, one, len(done), len(done[0]["token_ids"]), same, done[0]["text"]))
    return ReportTable("Replays of the sampled classes", ("prompt", "class", "runs", "tokens", "same tokens", "text"), rows)


def _prompts(found: Sequence[Item]) -> list[str]:
    return list(dict.fromkeys(item.prompt_id for item in found))


def event_direction(job: Job) -> EventDirectionJob:
    """The job as what it is. Raises TypeError for another protocol's."""
    if not isinstance(job, EventDirectionJob):
        raise TypeError(f"an event_direction job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

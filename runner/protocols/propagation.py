"""The representative trace of one persistent condition (study 3.2.1): from a MoE output to the text, stage by stage.

At the last prompt position: MoE output and post-mHC state of one layer, the router of a later one, the logits. Then tokens and
routes of the whole continuation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import kernels
from actors.executor import Session
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, encode, prompt_meaning, require_planned, shared_meaning
from runner.protocols.orders import GENERATOR
from runner.protocols.schedules import NATIVE, random, schedule_violations
from runner.protocols.trajectory import Trajectory, advance, differing_routes, first_difference, started
from schemas.digest import floats_sha256, routes_sha256
from schemas.job import Job
from schemas.job.persistent import PropagationJob
from schemas.job_file import JobFile
from schemas.tables.persistent import PROPAGATION_TRACES
from schemas.unit import Unit, UnitResult

name = "propagation"

needs_complete: Mapping[str, Sequence[str]] = {}

STAGE = "trace"

SIDES = ("native", "candidate")


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """A row of propagation_traces for each unit. Raises ConformanceFinding when the worker has another checkpoint."""
    require_planned(session, units)
    return [_execute(session, unit) for unit in units]


def _execute(session: Session, unit: Unit) -> UnitResult:
    parameters, config, decoder = unit.meaning["parameters"], session.checkpoint.config, session.decoder
    horizon = int(parameters["horizon"])
    prompt = encode(session, unit, horizon)
    seed, request_seed = int(parameters["experiment_seed"]), int(parameters["request_seed"])
    conditions = (NATIVE, random(parameters["scheme"], seed, unit.prompt_id, request_seed, config))
    captures = ("moe_output", "post_mhc", "router_scores")
    rows = [kernels.Row(decoder.new_state(), prompt, condition.intervention(*captures)) for condition in conditions]
    results = decoder.step(rows)
    trajectories = [started(row.state, prompt, [result]) for row, result in zip(rows, results, strict=True)]
    for _ in range(horizon - 1):
        advance(decoder, trajectories, [condition.intervention() for condition in conditions])
    row = {
        "prompt_id": unit.prompt_id,
        "scheme": parameters["scheme"],
        "request_seed": request_seed,
        "orders": conditions[1].orders,
        "experts_per_token": config.num_experts_per_tok,
        "position": len(prompt) - 1,
        "unit_key": unit.key,
    }
    row |= _inner_columns(results, int(parameters["layers"]["output"]), int(parameters["layers"]["router"]))
    row |= _behaviour_columns(session, trajectories)
    return UnitResult(unit.key, {PROPAGATION_TRACES.name: PROPAGATION_TRACES.build([row])})


def _inner_columns(results: Sequence[kernels.StepResult], output_layer: int, router_layer: int) -> dict[str, Any]:
    """What was captured at the last position of the prompt, native and candidate."""
    columns: dict[str, Any] = {"output_layer": output_layer, "router_layer": router_layer}
    captured = {
        "moe": [_last(result, "moe_output", output_layer) for result in results],
        "post_mhc": [_last(result, "post_mhc", output_layer) for result in results],
        "router": [_last(result, "router_scores", router_layer) for result in results],
        "logits": [result.logits for result in results],
    }
    for what, values in captured.items():
        columns[f"{what}_linf"] = float(np.abs(values[1] - values[0]).max())
    for place, (side, result) in enumerate(zip(SIDES, results, strict=True)):
        columns |= {
            f"{side}_moe_output_sha256": floats_sha256(captured["moe"][place]),
            f"{side}_post_mhc_sha256": floats_sha256(captured["post_mhc"][place]),
            f"{side}_logits_sha256": floats_sha256(captured["logits"][place]),
            f"{side}_experts": sorted(result.captures["route"][-1, router_layer].tolist()),
            f"{side}_router_margin": float(result.captures["router_margin"][-1, router_layer]),
            f"{side}_logit_margin": float(result.captures["logit_margin"][-1]),
        }
    return columns


def _behaviour_columns(session: Session, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Tokens, texts and the whole route trajectories."""
    routes = [one.all_routes() for one in trajectories]
    differing = differing_routes(*routes)
    first = np.argwhere(differing)[:1].tolist()  # positions first, then layers: the order in which they are executed
    columns: dict[str, Any] = {
        "first_difference": first_difference(*(one.tokens for one in trajectories)),
        "first_route_position": first[0][0] if first else None,
        "first_route_layer": first[0][1] if first else None,
        "routes_compared": differing.size,
        "routes_differing": int(np.count_nonzero(differing)),
    }
    for side, trajectory, its in zip(SIDES, trajectories, routes, strict=True):
        columns[f"{side}_token_ids"] = trajectory.tokens
        columns[f"{side}_text"] = session.tokenizer.decode(trajectory.tokens)
        columns[f"{side}_routes_sha256"] = routes_sha256(its)
    return columns


def _last(result: kernels.StepResult, capture: str, layer: int) -> npt.NDArray[np.float32]:
    return np.asarray(result.captures[capture][-1, layer], dtype=np.float32)


def schemas() -> Mapping[str, pa.Schema]:
    return {PROPAGATION_TRACES.name: PROPAGATION_TRACES.schema}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    propagation = _propagation(job.job)
    job.check_layer("layers.output", propagation.layers.output, config.num_hidden_layers)
    job.check_layer("layers.router", propagation.layers.router, config.num_hidden_layers)
    check_job(job, config)
    check_positions(job, "horizon", config, prompt_tokens, propagation.horizon)


def stages(job: Job) -> Sequence[str]:
    return (STAGE,)


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """One unit a prompt."""
    shared = shared_meaning(experiment, (PROPAGATION_TRACES,)) | {"schedules": GENERATOR}
    return [
        Unit(stage, prompt.prompt_id, shared | prompt_meaning(prompt), payload={"text": prompt.text}, group=prompt.prompt_id)
        for prompt in experiment.prompts
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """The drawn schedule, token counts, and differences exactly where bits differ."""
    job = _propagation(experiment.job)
    rows = committed.table(STAGE, PROPAGATION_TRACES.name).to_pylist()
    violations = schedule_violations(rows, job.experiment_seed)
    for row in rows:
        for side in SIDES:
            if len(row[f"{side}_token_ids"]) != job.horizon:
                violations.append(f"{row['prompt_id']}: {len(row[f'{side}_token_ids'])} {side} tokens instead of {job.horizon}")
        for what, digest in (("moe", "moe_output"), ("post_mhc", "post_mhc"), ("logits", "logits")):
            if row[f"{what}_linf"] != 0 and row[f"native_{digest}_sha256"] == row[f"candidate_{digest}_sha256"]:
                violations.append(f"{row['prompt_id']}: {what}_linf {row[f'{what}_linf']} with equal digests")
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    return [
        ReportTable(
            f"{row['prompt_id']}: scheme {row['scheme']}, request seed {row['request_seed']}, position {row['position']}",
            ("stage", "native", "candidate", "difference"),
            [(one["stage"], one["native"], one["candidate"], one["difference"]) for one in trace_lines(row)],
        )
        for row in committed.table(STAGE, PROPAGATION_TRACES.name).to_pylist()
    ]


def trace_lines(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The lines of the table in study 3.2.1 (stage, native, candidate, difference) of one row of propagation_traces."""
    for stage, digest, linf in (
        (f"layer-{row['output_layer']} MoE output", "moe_output", row["moe_linf"]),
        (f"layer-{row['output_layer']} post-mHC state", "post_mhc", row["post_mhc_linf"]),
    ):
        native, candidate = (row[f"{side}_{digest}_sha256"] for side in SIDES)
        difference = "bitwise equal" if native == candidate else f"not bitwise equal; max L-inf {_number(linf)}"
        yield {"stage": stage, "native": native[:16], "candidate": candidate[:16], "difference": difference}
    experts = [row[f"{side}_experts"] for side in SIDES]
    entered, left = sorted(set(experts[1]) - set(experts[0])), sorted(set(experts[0]) - set(experts[1]))
    moved = f"enter {_set(entered)}, leave {_set(left)}" if entered else "the same experts"
    yield (
        {"stage": f"layer-{row['router_layer']} router"}
        | {side: f"{_set(row[f'{side}_experts'])}, margin {_number(row[f'{side}_router_margin'])}" for side in SIDES}
        | {"difference": f"score max L-inf {_number(row['router_linf'])}; {moved}"}
    )
    yield (
        {"stage": "logits after the prompt"}
        | {side: f"argmax {row[f'{side}_token_ids'][0]}, margin {_number(row[f'{side}_logit_margin'])}" for side in SIDES}
        | {"difference": f"max L-inf {_number(row['logits_linf'])}"}
    )
    ordinal = row["first_difference"]
    yield (
        {"stage": "first changed generated token"}
        | {
            side: "none" if ordinal is None else f"ordinal {ordinal}: token {row[f'{side}_token_ids'][ordinal - 1]}"
            for side in SIDES
        }
        | {
            "difference": "all generated token IDs agree"
            if ordinal is None
            else f"the first {ordinal - 1} generated token IDs agree"
        }
    )
    position = row["first_route_position"]
    where = "" if position is None else f", the first at position {position}, layer {row['first_route_layer']}"
    yield (
        {"stage": "route trajectory"}
        | {side: row[f"{side}_routes_sha256"][:16] for side in SIDES}
        | {"difference": f"{row['routes_differing']}/{row['routes_compared']} selections differ{where}"}
    )
    same = row["native_text"] == row["candidate_text"]
    yield (
        {"stage": "continuation"}
        | {side: row[f"{side}_text"] for side in SIDES}
        | {"difference": "same" if same else "different"}
    )


def _number(value: float) -> str:
    """An FP32 value, the shortest decimal that reads back as the same one."""
    return str(np.float32(value))


def _set(experts: Sequence[int]) -> str:
    return "{" + ", ".join(str(expert) for expert in experts) + "}"


def _propagation(job: Job) -> PropagationJob:
    if not isinstance(job, PropagationJob):
        raise TypeError(f"a propagation job, not {type(job).__name__}")
    return job


__all__ = [
    "STAGE",
    "check",
    "execute",
    "name",
    "needs_complete",
    "preflight",
    "report",
    "schemas",
    "stages",
    "trace_lines",
    "units",
]

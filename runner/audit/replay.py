"""Claims about native replay (study 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.audit.evidence import FILE, Evidence, Row, grouped
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural
from runner.protocols.common import processed_tokens
from runner.protocols.replay import STAGES
from schemas.digest import routes_sha256
from schemas.job.replay import ReplayJob
from schemas.tables import REPLAY_PASSES


@dataclass(frozen=True)
class ReplayFigures:
    """routes, tokens, texts, logits, states: prompts whose replay repeats them. outputs: passes in which scheme C was
    recomputed at every position and layer; repeated: MoE outputs that it repeats bit for bit. digests: of routes, recomputed.
    """

    prompts: int
    routes: Tally
    tokens: Tally
    texts: Tally
    c_moe_max_abs: float
    logits: Tally | None = None
    states: Tally | None = None
    outputs: Tally | None = None
    repeated: Tally | None = None
    digests: Tally | None = None


def measure(evidence: Evidence) -> ReplayFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, ReplayJob)
    passes = evidence.rows(REPLAY_PASSES.name)
    pairs = {prompt: {str(row["execution"]): row for row in rows} for prompt, rows in grouped(passes, "prompt_id").items()}

    def repeated(column: str) -> Tally:
        return Tally.of(_repeats(prompt, pairs.get(prompt, {}), column) for prompt in evidence.prompts)

    def complete(row: Row) -> bool:
        positions = processed_tokens(len(row["prompt_token_ids"]), job.horizon)
        return bool(row["positions"] == positions and row["c_outputs_compared"] == positions * row["layers"])

    return ReplayFigures(
        prompts=len(evidence.prompts),
        routes=repeated("routes"),
        tokens=repeated("token_ids"),
        texts=repeated("text"),
        c_moe_max_abs=max((row["c_moe_max_abs"] for row in passes), default=0.0),
        logits=repeated("logits_sha256"),
        states=repeated("state_sha256"),
        outputs=Tally.of((complete(row), f"{_where(row)}: {row['c_outputs_compared']} outputs", row[FILE]) for row in passes),
        repeated=_outputs(passes),
        digests=Tally.of((_routes_sha256(row) == row["routes_sha256"], _where(row), row[FILE]) for row in passes),
    )


def _repeats(prompt: str, executions: Mapping[str, Row], column: str) -> tuple[bool, str, str]:
    missing = [stage for stage in STAGES if stage not in executions]
    if missing:
        return False, f"{prompt} has no {missing[0]} pass", ""
    reference, replay = (executions[stage] for stage in STAGES)
    return reference[column] == replay[column], f"{prompt}: the replay has another {column}", str(replay[FILE])


def _outputs(passes: Sequence[Row]) -> Tally:
    compared = sum(row["c_outputs_compared"] for row in passes)
    differing = sum(row["c_outputs_differing"] for row in passes)
    first = next((row for row in passes if row["c_outputs_differing"]), None)
    where = ("", "") if first is None else (f"{_where(first)}: {first['c_outputs_differing']} outputs differ", first[FILE])
    return Tally(compared - differing, compared, *where)


def _routes_sha256(row: Row) -> str:
    routes = np.array(row["routes"], dtype=np.int32)
    shape = (row["positions"], row["layers"], -1)
    return routes_sha256(routes.reshape(shape)) if routes.size and routes.size % (shape[0] * shape[1]) == 0 else ""


def _where(row: Row) -> str:
    return f"{row['prompt_id']}, {row['execution']}"


def _outputs_complete(one: ReplayFigures) -> Check | Absent:
    return UNPUBLISHED if one.outputs is None else every(one.outputs, len(STAGES) * one.prompts, f"{len(STAGES)}*{one.prompts}")


TABLE = REPLAY_PASSES.name

CLAIMS: tuple[Claim[ReplayFigures], ...] = (
    structural("routes", "3.1", TABLE, "Every replay repeats the route trajectory", lambda one: every(one.routes, one.prompts)),
    structural("tokens", "3.1", TABLE, "Every replay repeats the token IDs", lambda one: every(one.tokens, one.prompts)),
    structural("texts", "3.1", TABLE, "Every replay repeats the text", lambda one: every(one.texts, one.prompts)),
    structural(
        "c_moe_max_abs",
        "3.1",
        TABLE,
        "Scheme C in native order gives the native MoE outputs",
        lambda one: same(one.c_moe_max_abs, 0.0),
    ),
    structural("c_bits", "3.1", TABLE, "It gives them bit for bit", lambda one: every(one.repeated)),
    structural("c_outputs", "3.1", TABLE, "It was tried at every position and layer of every pass", _outputs_complete),
    structural(
        "logits",
        "3.1",
        TABLE,
        "Every replay repeats the logits of every step bit for bit",
        lambda one: UNPUBLISHED if one.logits is None else every(one.logits, one.prompts),
    ),
    structural(
        "states",
        "3.1",
        TABLE,
        "Every replay ends in the same persistent state",
        lambda one: UNPUBLISHED if one.states is None else every(one.states, one.prompts),
    ),
    structural("route_digests", "3.1", TABLE, "Route digests are those of the routes", lambda one: every(one.digests)),
    empirical("prompts", "3.1", TABLE, "Prompts replayed", lambda one: str(one.prompts)),
)

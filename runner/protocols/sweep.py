"""Single-layer sweep (study 2.4.1, 2.6, 3.2): every order of one frozen aggregation, and the basins its continuations fall into.

Stage "native" traces the fork of each prompt. Stage "branches" has a unit for each block of a scheme's branches: orders, for
scheme B classes of two orders. A unit traces the fork again, freezes it and continues each different state once; all units of a
prompt must have found the same fork, and which block an order stood in changes nothing of its row.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import kernels
from runner.protocol import Committed, Experiment, ReportTable
from runner.protocols.common import check_job, check_positions, prompt_meaning, shared_meaning
from runner.protocols.sweep_basins import SweepCounts, basins, branches_of
from runner.protocols.sweep_execution import branch_count, execute
from schemas.job import Job
from schemas.job.sweep import SweepJob
from schemas.job_file import JobFile
from schemas.tables.sweep import SWEEP_FORKS, SWEEP_ORDERS
from schemas.unit import Unit

name = "sweep"

needs_complete: Mapping[str, Sequence[str]] = {}

SPECS = (SWEEP_FORKS, SWEEP_ORDERS)

STAGES = ("native", "branches")

OF_THE_UNIT = frozenset({"scheme", "first_branch", "branches", "executed", "unit_key"})
"""Columns of sweep_forks that say which unit it was; the others say what was found, the same for all units of a prompt."""

OF_THE_STATE = ("token_ids", "text", "first_difference", "routes_sha256", "routes_differing")
"""Columns of sweep_orders that follow from the post-mHC state alone (study 3.2.2)."""

SHOWN_BASINS = 12


def schemas() -> Mapping[str, pa.Schema]:
    return {spec.name: spec.schema for spec in SPECS}


def preflight(job: JobFile, config: kernels.Config, prompt_tokens: Mapping[str, int]) -> None:
    sweep = _sweep(job.job)
    job.check_layer("fork.layer", sweep.fork.layer, config.num_hidden_layers)
    check_job(job, config)
    check_positions(job, "horizon", config, prompt_tokens, sweep.horizon)


def stages(job: Job) -> Sequence[str]:
    return STAGES


def units(experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
    """Stage "native": a unit a prompt. Stage "branches": for each prompt that has a fork, the blocks of each scheme."""
    job = _sweep(experiment.job)
    shared = shared_meaning(experiment, SPECS)
    blocks: dict[str, list[dict[str, Any]]] = {
        prompt.prompt_id: [{"scheme": "native", "first_branch": 0, "branches": 0}] for prompt in experiment.prompts
    }
    if stage == "branches":
        forks = {row["prompt_id"]: row for row in committed.table("native", SWEEP_FORKS.name).to_pylist()}
        blocks = {prompt: _blocks(job, len(fork["fork_experts"])) for prompt, fork in forks.items()}
    return [
        Unit(
            stage,
            prompt.prompt_id,
            shared | block | prompt_meaning(prompt),
            payload={"text": prompt.text},
            group=prompt.prompt_id,
        )
        for prompt in experiment.prompts
        for block in blocks.get(prompt.prompt_id, ())
    ]


def check(experiment: Experiment, committed: Committed) -> list[str]:
    """One fork a prompt, every order once, token counts, the exact pairs of scheme B, and equal states with equal futures."""
    horizon = _sweep(experiment.job).horizon
    violations = []
    forks: dict[str, dict[str, Any]] = {}
    of_unit: Counter[str] = Counter()
    orders: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for stage in STAGES:
        for row in committed.table(stage, SWEEP_FORKS.name).to_pylist():
            first = forks.setdefault(row["prompt_id"], row)
            differing = [column for column in row if column not in OF_THE_UNIT and row[column] != first[column]]
            if differing:
                where = f"{row['prompt_id']}, scheme {row['scheme']}, branches from {row['first_branch']}"
                violations.append(f"{where}: another fork than the prompt's first unit found: {', '.join(differing)}")
        for row in committed.table(stage, SWEEP_ORDERS.name).to_pylist():
            orders[row["prompt_id"], row["scheme"]].append(row)
            of_unit[row["unit_key"]] += 1
            if len(row["token_ids"]) != horizon:
                where = f"{row['prompt_id']}, scheme {row['scheme']}, order {row['order']}"
                violations.append(f"{where}: {len(row['token_ids'])} generated tokens instead of {horizon}")
    for row in committed.table("branches", SWEEP_FORKS.name).to_pylist():
        expected = row["branches"] * (2 if row["scheme"] == "B" else 1)
        if of_unit[row["unit_key"]] != expected:
            where = f"{row['prompt_id']}, scheme {row['scheme']}, branches from {row['first_branch']}"
            violations.append(f"{where}: {of_unit[row['unit_key']]} orders instead of {expected}")
    for (prompt, scheme), rows in orders.items():
        where = f"{prompt}, scheme {scheme}"
        if prompt not in forks:
            violations.append(f"{where}: {len(rows)} orders of a prompt whose fork has no row")
            continue
        k = len(forks[prompt]["fork_experts"])
        if any(not 0 <= row["order"] < math.factorial(k) for row in rows):
            violations.append(f"{where}: an order that is no permutation of {k} terms")
        elif scheme == "B":
            violations += [f"{where}: {line}" for line in _pair_violations(rows, k)]
    for prompt, fork in forks.items():
        everything = [row for (owner, _), rows in orders.items() if owner == prompt for row in rows]
        violations += [f"{prompt}: {line}" for line in _state_violations(everything, fork)]
    return violations


def report(experiment: Experiment, committed: Committed) -> list[ReportTable]:
    counted, ranked = [], []
    for (prompt, scheme), rows in found_orders(committed).items():
        counts = SweepCounts.of(rows)
        counted.append(
            (
                prompt,
                scheme,
                counts.raw_orders,
                counts.branches,
                counts.distinct_moe_outputs,
                counts.distinct_post_mhc,
                counts.differing_from_native,
                counts.distinct_token_sequences,
                counts.distinct_texts,
            )
        )
        for place, basin in enumerate(basins(rows)[:SHOWN_BASINS], start=1):
            ranked.append((prompt, scheme, place, f"{basin.branches}/{branches_of(rows)}", basin.text))
    columns = (
        "prompt",
        "scheme",
        "orders",
        "classes",
        "MoE outputs",
        "post-mHC states",
        "not native",
        "token sequences",
        "texts",
    )
    return [
        ReportTable("Distinct results of one reduction", columns, counted),
        ReportTable(f"Basins by volume, the largest {SHOWN_BASINS}", ("prompt", "scheme", "rank", "volume", "text"), ranked),
    ]


def found_orders(committed: Committed) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(prompt ID, scheme) -> its rows of sweep_orders by ascending order, in the order of the plan."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in committed.table("branches", SWEEP_ORDERS.name).to_pylist():
        found[row["prompt_id"], row["scheme"]].append(row)
    return {key: sorted(rows, key=lambda row: int(row["order"])) for key, rows in found.items()}


def _blocks(job: SweepJob, experts_per_token: int) -> list[dict[str, Any]]:
    return [
        {"scheme": scheme, "first_branch": first, "branches": min(job.block, count - first)}
        for scheme in job.schemes
        for count in (branch_count(scheme, experts_per_token),)
        for first in range(0, count, job.block)
    ]


def _pair_violations(rows: Iterable[Mapping[str, Any]], k: int) -> list[str]:
    """The class algebra of study 2.6: classes are those of the first-two-terms symmetry, their two orders bitwise equals."""
    expected = {order: number for number, pair in enumerate(kernels.structural_classes(k)) for order in pair}
    members: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    violations = []
    for row in rows:
        if row["structural_class"] != expected[row["order"]]:
            violations.append(f"order {row['order']} in class {row['structural_class']} instead of {expected[row['order']]}")
        members[expected[row["order"]]].append(row)
    for number, pair in members.items():
        if len(pair) != 2:
            violations.append(f"class {number} with {len(pair)} orders")
        elif any(pair[0][column] != pair[1][column] for column in ("moe_output_sha256", "post_mhc_sha256", "token_ids", "text")):
            violations.append(f"class {number}: its two orders give different results")
    return violations


def _state_violations(rows: Sequence[Mapping[str, Any]], fork: Mapping[str, Any]) -> list[str]:
    """Equal post-mHC states at the fork have equal futures, whatever scheme, order or unit gave them; native is one of them."""
    futures: dict[str, Mapping[str, Any]] = {}
    violations = []
    for row in rows:
        first = futures.setdefault(row["post_mhc_sha256"], row)
        differing = [column for column in OF_THE_STATE if row[column] != first[column]]
        if differing:
            one, other = (f"{one['scheme']} order {one['order']}" for one in (first, row))
            violations.append(f"{one} and {other} share a post-mHC state and differ in {', '.join(differing)}")
        if row["equals_native"] != (row["post_mhc_sha256"] == fork["native_post_mhc_sha256"]):
            violations.append(f"{row['scheme']} order {row['order']}: equals_native contradicts the digests")
        if row["equals_native"] and row["token_ids"] != fork["native_token_ids"]:
            violations.append(f"{row['scheme']} order {row['order']}: the native state with other tokens than native")
    return violations


def _sweep(job: Job) -> SweepJob:
    if not isinstance(job, SweepJob):
        raise TypeError(f"a sweep job, not {type(job).__name__}")
    return job


__all__ = ["check", "execute", "found_orders", "name", "needs_complete", "preflight", "report", "schemas", "stages", "units"]

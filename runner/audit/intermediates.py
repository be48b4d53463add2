"""Claims about intermediate values under random schedules (study 3.6, B.5). That scheme C is invariant to order is measured
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, grouped
from runner.audit.ledger import UNPUBLISHED, Check, Claim, Tally, empirical, every, same, structural
from runner.protocols.intermediates import KINDS
from runner.protocols.orders import draw_schedule
from schemas.job.persistent import IntermediatesJob
from schemas.tables import INTERMEDIATE_CHECKS


@dataclass(frozen=True)
class PromptCheck:
    """One prompt. equal: schedules all of whose values have the native bits. linf: kind -> largest difference from native."""

    prompt: str
    schedules: int
    missing: int
    equal: int
    linf: Mapping[str, float]


@dataclass(frozen=True)
class IntermediatesFigures:
    """records: rows that expect as many vectors as positions and layers have. consistent: rows that say "bitwise equal" exactly
    where nothing differs and nothing is missing.
    """

    prompts: int
    seeds: int
    scheme: str
    checks: tuple[PromptCheck, ...]
    records: Tally | None = None
    consistent: Tally | None = None
    drawn: Tally | None = None


def measure(evidence: Evidence) -> IntermediatesFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, IntermediatesJob)
    rows = evidence.rows(INTERMEDIATE_CHECKS.name)
    return IntermediatesFigures(
        prompts=len(evidence.prompts),
        seeds=job.request_seeds,
        scheme=job.scheme,
        checks=tuple(
            PromptCheck(
                prompt,
                schedules=len({row["request_seed"] for row in group}),
                missing=sum(row["records_missing"] for row in group),
                equal=sum(row["bitwise_equal"] for row in group),
                linf={kind: max(row[f"{kind}_linf"] for row in group) for kind in KINDS},
            )
            for prompt, group in grouped(rows, "prompt_id").items()
        ),
        records=Tally.of((row["records_expected"] == _vectors(row), _where(row), row[FILE]) for row in rows),
        consistent=Tally.of((_consistent(row), _where(row), row[FILE]) for row in rows),
        drawn=Tally.of((_drawn(row, job.experiment_seed), _where(row), row[FILE]) for row in rows),
    )


def _vectors(row: Row) -> int:
    """MoE outputs and post-mHC states of every layer, router scores of all but the first, logits: at every position."""
    return int(row["positions"] * (row["layers"] + row["layers"] + (row["layers"] - 1) + 1))


def _consistent(row: Row) -> bool:
    differing = [row[f"{kind}_differing"] for kind in KINDS]
    nothing_differs = not any(differing) and row["records_missing"] == 0
    return row["bitwise_equal"] == nothing_differs and all(row[f"{kind}_linf"] == 0 or row[f"{kind}_differing"] for kind in KINDS)


def _drawn(row: Row, experiment_seed: int) -> bool:
    orders = draw_schedule(experiment_seed, row["prompt_id"], row["request_seed"], row["layers"], row["experts_per_token"])
    return tuple(row["orders"]) == orders


def _where(row: Row) -> str:
    return f"{row['prompt_id']}, request seed {row['request_seed']}"


def _schedules(one: IntermediatesFigures) -> Check:
    return same(sum(check.schedules for check in one.checks), one.prompts * one.seeds, f"{one.prompts}*{one.seeds}")


def _missing(one: IntermediatesFigures) -> Check:
    return same(sum(check.missing for check in one.checks), 0)


def _invariance(one: IntermediatesFigures) -> str:
    total = sum(check.schedules for check in one.checks)
    return f"scheme {one.scheme}: {sum(check.equal for check in one.checks)}/{total} schedules bitwise equal"


def _linf(one: IntermediatesFigures) -> str:
    return ", ".join(f"{kind} {max((check.linf[kind] for check in one.checks), default=0.0):g}" for kind in KINDS)


TABLE = INTERMEDIATE_CHECKS.name

CLAIMS: tuple[Claim[IntermediatesFigures], ...] = (
    structural("schedules", "B.5", TABLE, "Schedules are prompts times request seeds", _schedules),
    structural("missing", "B.5", TABLE, "No captured record is missing", _missing),
    structural(
        "records",
        "B.5",
        TABLE,
        "A schedule has as many records as positions and layers",
        lambda one: UNPUBLISHED if one.records is None else every(one.records, one.prompts * one.seeds),
    ),
    structural(
        "consistent",
        "B.5",
        TABLE,
        "Bitwise equal means that nothing differs and nothing is missing",
        lambda one: every(one.consistent),
    ),
    structural("drawn", "2.4.5", TABLE, "Schedules are those that the generator draws", lambda one: every(one.drawn)),
    empirical("invariance", "3.6, B.5", TABLE, "Invariance to order against native", _invariance),
    empirical("linf", "B.5", TABLE, "Largest differences from native", _linf),
)

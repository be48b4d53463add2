"""Claims about what several runs on one checkpoint have in common: equal work gives equal results, whichever protocol asked for
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.audit.evidence import FILE, Evidence, Row
from runner.audit.ledger import Absent, Check, Claim, Tally, every, structural
from schemas.tables import (
    BREADTH_CLASSES,
    BREADTH_UNITS,
    CANONICAL_TRAJECTORIES,
    EVENT_DIRECTION_CLASSES,
    EVENT_DIRECTION_FORKS,
    PERSISTENT_STATE_UNITS,
    PERSISTENT_TRAJECTORIES,
    POST_MHC_UNITS,
    PROPAGATION_TRACES,
    REPLAY_PASSES,
    SWEEP_FORKS,
    SWEEP_ORDERS,
)

NATIVE = {
    REPLAY_PASSES.name: "token_ids",
    SWEEP_FORKS.name: "native_token_ids",
    BREADTH_UNITS.name: "native_token_ids",
    PERSISTENT_TRAJECTORIES.name: "token_ids",
    CANONICAL_TRAJECTORIES.name: "token_ids",
    PROPAGATION_TRACES.name: "native_token_ids",
    POST_MHC_UNITS.name: "native_token_ids",
    PERSISTENT_STATE_UNITS.name: "native_token_ids",
    EVENT_DIRECTION_FORKS.name: "native_token_ids",
}
"""Table -> its column of native tokens. Trajectories are native where their schedule says so."""

ORDER_COLUMN = {SWEEP_ORDERS.name: "order", BREADTH_CLASSES.name: "order_low", EVENT_DIRECTION_CLASSES.name: "branch_order"}
"""Table with a post-mHC state a row -> its column of the scheme-B order that gave it."""


@dataclass(frozen=True)
class AcrossFigures:
    """natives, identities, states: results that more than one run has, and that are equal in all of them."""

    natives: Tally
    identities: Tally
    states: Tally


@dataclass(frozen=True)
class _Result:
    """Something that a run found, and what must be equal wherever the meaning is: checkpoint, numerics, prompt, and what was
    done.
    """

    meaning: tuple[Any, ...]
    value: Sequence[Any] | str
    run: str
    file: str


def measure(runs: Sequence[Evidence]) -> AcrossFigures:
    return AcrossFigures(
        natives=_compared([result for run in runs for result in _natives(run)]),
        identities=_compared([result for run in runs for result in _identities(run)]),
        states=_compared([result for run in runs for result in _states(run)]),
    )


def _shared(evidence: Evidence, row: Row) -> tuple[Any, ...]:
    run = evidence.run
    identities = (run.record.checkpoint_identity, run.record.tokenizer_identity, run.experiment.job.numerics)
    return (*identities, run.record.prompts.get(row["prompt_id"], ""))


def _natives(evidence: Evidence) -> Iterator[_Result]:
    for table in evidence.run.store.schemas.keys() & NATIVE.keys():
        for row in evidence.rows(table):
            if row.get("schedule", "native") == "native":
                yield _Result(_shared(evidence, row), tuple(row[NATIVE[table]]), str(evidence.run.paths.root), row[FILE])


def _identities(evidence: Evidence) -> Iterator[_Result]:
    for table in evidence.run.store.schemas.keys() & {PERSISTENT_TRAJECTORIES.name, CANONICAL_TRAJECTORIES.name}:
        for row in evidence.rows(table):
            if row["schedule"] != "random":
                done = (row["scheme"], len(row["token_ids"]))
                value = (row["token_sha256"], row["routes_sha256"], row["state_sha256"])
                yield _Result((*_shared(evidence, row), *done), value, str(evidence.run.paths.root), row[FILE])


def _states(evidence: Evidence) -> Iterator[_Result]:
    """Post-mHC states of scheme B's orders at a fork."""
    job: Any = evidence.run.experiment.job
    for table in evidence.run.store.schemas.keys() & ORDER_COLUMN.keys():
        for row in evidence.rows(table):
            if row.get("scheme", "B") == "B":
                done = (job.fork.layer, row[ORDER_COLUMN[table]])
                value = row["post_mhc_sha256"]
                yield _Result((*_shared(evidence, row), *done), value, str(evidence.run.paths.root), row[FILE])


def _compared(results: Sequence[_Result]) -> Tally:
    """Of meanings that more than one run has. Of continuations the longest decides, and the others must begin it."""
    groups: dict[tuple[Any, ...], list[_Result]] = {}
    for result in results:
        groups.setdefault(result.meaning, []).append(result)
    return Tally.of(_agree(group) for group in groups.values() if len({one.run for one in group}) > 1)


def _agree(group: Sequence[_Result]) -> tuple[bool, str, str]:
    longest = max(group, key=lambda one: len(one.value))
    other = next((one for one in group if longest.value[: len(one.value)] != one.value), None)
    return (
        other is None,
        "" if other is None else f"{other.run} has it otherwise than {longest.run}",
        "" if other is None else other.file,
    )


def _every(tally: Tally) -> Check | Absent:
    return every(tally) if tally.total else Absent("no two runs have it in common")


CLAIMS: tuple[Claim[AcrossFigures], ...] = (
    structural("natives", "3.1", "", "A prompt has one native continuation, whichever run asks", lambda one: _every(one.natives)),
    structural(
        "identities",
        "2.7",
        "",
        "Native and identity orders give one trajectory, whichever run asks",
        lambda one: _every(one.identities),
    ),
    structural("states", "2.6", "", "An order gives one state at a fork, whichever run asks", lambda one: _every(one.states)),
)

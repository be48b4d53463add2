"""The audit: a ledger of the study's claims with the evidence that a set of runs has for each (study A.3).

A module a protocol has its figures, how they are counted from a run, and its claims; `study` has the published figures. To add a
claim: a line in its module's CLAIMS. A claim that is about published figures too passes over both by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.audit import (
    across_runs,
    breadth,
    canonical,
    event_direction,
    every_run,
    intermediates,
    persistent,
    persistent_state,
    post_mhc,
    propagation,
    replay,
    study,
    sweep,
)
from runner.audit.evidence import Evidence
from runner.audit.ledger import Absent, Claim, Entry, Ledger, entry
from runner.run import Run
from schemas.errors import InvalidInput


@dataclass(frozen=True)
class Audit:
    """A protocol's claims, how the figures they are about are counted from a run, and the study's figures."""

    protocol: str
    measure: Callable[[Evidence], Any]
    claims: Sequence[Claim[Any]]
    published: Any


AUDITS: tuple[Audit, ...] = (
    Audit("replay", replay.measure, replay.CLAIMS, study.REPLAY),
    Audit("sweep", sweep.measure, sweep.CLAIMS, study.SWEEP),
    Audit("persistent", persistent.measure, persistent.CLAIMS, study.PERSISTENT),
    Audit("canonical", canonical.measure, canonical.CLAIMS, study.CANONICAL),
    Audit("intermediates", intermediates.measure, intermediates.CLAIMS, study.INTERMEDIATES),
    Audit("propagation", propagation.measure, propagation.CLAIMS, study.PROPAGATION),
    Audit("post_mhc", post_mhc.measure, post_mhc.CLAIMS, study.POST_MHC),
    Audit("persistent_state", persistent_state.measure, persistent_state.CLAIMS, study.PERSISTENT_STATE),
    Audit("event_direction", event_direction.measure, event_direction.CLAIMS, study.EVENT_DIRECTION),
    Audit("breadth", breadth.measure, breadth.CLAIMS, study.BREADTH),
)
"""A line a protocol, in the order of the study."""

STUDY = "study"
"""Stands for the run where the published figures are the evidence."""

NO_RUN = "no such run"
"""Why the claims of a protocol are not applicable that none of the runs has."""


def audit(runs: Sequence[Run]) -> Ledger:
    """The ledger of all claims over these runs, every protocol's in turn; those of protocols that no run has are not applicable.

    Raises InvalidInput for a run that has not ended: counts over a part of the units would pass for counts over all.
    """
    evidence = [Evidence(run) for run in runs]
    for one in evidence:
        state = one.run.verdict().state
        if state not in ("finished", "differs"):
            raise InvalidInput(str(one.run.paths.root), "", f"a run that is {state}", "a finished run")
    entries: list[Entry] = []
    for claims in AUDITS:
        own = [one for one in evidence if one.run.protocol.name == claims.protocol]
        for one in own:
            entries += _of_run(claims, one)
        if not own:
            entries += _without_run(claims)
    return Ledger([*entries, *_across(evidence)])


def published() -> Ledger:
    """The ledger of the study's own figures: every structural claim that they suffice for, by the code that audits runs."""
    return Ledger(
        [
            entry(claim, claims.protocol, outcome, "", run=STUDY, folder="")
            for claims in AUDITS
            for claim in claims.claims
            if claim.kind == "structural"
            for outcome in (claim.look(claims.published),)
            if not isinstance(outcome, Absent)
        ]
    )


def _of_run(claims: Audit, evidence: Evidence) -> Iterator[Entry]:
    paths = evidence.run.paths
    try:
        common: Any = every_run.measure(evidence)
        own = claims.measure(evidence)
    except InvalidInput as error:  # a file that cannot be read: no figure can be counted, which is a fault of the run itself
        common = own = error
    for claim in (*every_run.CLAIMS, *claims.claims):
        figures = common if claim in every_run.CLAIMS else own
        outcome: Any = Absent("the run cannot be read") if isinstance(figures, InvalidInput) else claim.look(figures)
        if claim.name == "verified" and isinstance(figures, InvalidInput):
            outcome = every_run.unreadable(evidence, figures)
        folder = str(paths.table(claim.table) if claim.table else paths.root)
        yield entry(claim, claims.protocol, outcome, _beside(claims, claim), run=str(paths.root), folder=folder)


def _without_run(claims: Audit) -> Iterator[Entry]:
    for claim in claims.claims:
        yield entry(claim, claims.protocol, Absent(NO_RUN), _beside(claims, claim), run="", folder="")


def _beside(claims: Audit, claim: Claim[Any]) -> str:
    """The study's figure for an empirical claim, made in the same way as the run's."""
    if claim.kind == "structural":
        return ""
    outcome = claim.look(claims.published)
    return outcome if isinstance(outcome, str) else ""


def _across(evidence: Sequence[Evidence]) -> Iterator[Entry]:
    try:
        figures = across_runs.measure(evidence)
    except InvalidInput:  # named by the run that cannot be read
        return
    for claim in across_runs.CLAIMS:
        yield entry(claim, "across_runs", claim.look(figures), "", run="", folder="")


__all__ = ["AUDITS", "NO_RUN", "STUDY", "Audit", "Ledger", "audit", "published"]

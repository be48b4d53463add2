"""Claims about the same-mode canonical reference (study 2.4.6, 2.7, B.4): the identity order of each scheme beside native."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence
from runner.audit.ledger import Absent, Check, Claim, Tally, empirical, every, same, structural
from runner.audit.persistent import has_every_route
from runner.protocols.orders import IDENTITY
from schemas.job.persistent import STUDY_SCHEMES, CanonicalJob
from schemas.tables import CANONICAL_TRAJECTORIES


@dataclass(frozen=True)
class Shift:
    """Prompts in which a scheme's identity order differs from native."""

    tokens: int
    route: int


@dataclass(frozen=True)
class CanonicalFigures:
    """trajectories: (prompt, scheme) pairs that there are. complete: trajectories with all their tokens. identity: those in the
    identity order at every layer. layers: those with a route for every processed position and layer. baselines: native
    references beside them.
    """

    prompts: int
    schemes: tuple[str, ...]
    trajectories: int
    complete: Tally
    shifts: Mapping[str, Shift]
    identity: Tally | None = None
    layers: Tally | None = None
    baselines: int | None = None


def measure(evidence: Evidence) -> CanonicalFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, CanonicalJob)
    rows = evidence.rows(CANONICAL_TRAJECTORIES.name)
    native = {row["prompt_id"]: row for row in rows if row["schedule"] == "native"}
    own = [row for row in rows if row["schedule"] != "native"]

    def shift(scheme: str) -> Shift:
        pairs = [(row, native.get(row["prompt_id"])) for row in own if row["scheme"] == scheme]
        tokens = sum(other is None or row["token_ids"] != other["token_ids"] for row, other in pairs)
        return Shift(tokens, sum(other is None or row["routes_sha256"] != other["routes_sha256"] for row, other in pairs))

    return CanonicalFigures(
        prompts=len(evidence.prompts),
        schemes=job.schemes,
        trajectories=len({(row["prompt_id"], row["scheme"]) for row in own}),
        complete=Tally.of(
            (len(row["token_ids"]) == job.horizon, f"{row['prompt_id']}, {row['scheme']}", row[FILE]) for row in own
        ),
        shifts={scheme: shift(scheme) for scheme in dict.fromkeys(row["scheme"] for row in own)},
        identity=Tally.of(
            (set(row["orders"]) == {IDENTITY}, f"{row['prompt_id']}, scheme {row['scheme']}", row[FILE]) for row in own
        ),
        layers=Tally.of((has_every_route(row), f"{row['prompt_id']}, scheme {row['scheme']}", row[FILE]) for row in rows),
        baselines=len(native),
    )


def _shift(scheme: str) -> Callable[[CanonicalFigures], str | Absent]:
    def figure(one: CanonicalFigures) -> str | Absent:
        found = one.shifts.get(scheme)
        if found is None:
            return Absent(f"no trajectories of scheme {scheme}")
        return f"tokens {found.tokens}/{one.prompts}, route {found.route}/{one.prompts}"

    return figure


def _baselines(one: CanonicalFigures) -> Check | Absent:
    return Absent("not among the published figures") if one.baselines is None else same(one.baselines, one.prompts)


TABLE = CANONICAL_TRAJECTORIES.name

CLAIMS: tuple[Claim[CanonicalFigures], ...] = (
    structural(
        "trajectories",
        "2.4.6",
        TABLE,
        "Trajectories are prompts times schemes",
        lambda one: same(one.trajectories, one.prompts * len(one.schemes), f"{one.prompts}*{len(one.schemes)}"),
    ),
    structural(
        "tokens", "2.4.6", TABLE, "Each has all its tokens", lambda one: every(one.complete, one.prompts * len(one.schemes))
    ),
    structural("identity", "2.7", TABLE, "Each is in the identity order at every layer", lambda one: every(one.identity)),
    structural("layers", "2.4.6", TABLE, "One order a layer, one route a position and layer", lambda one: every(one.layers)),
    structural("baselines", "2.7", TABLE, "One native baseline a prompt, beside these", _baselines),
    *(
        empirical(f"shift.{scheme}", "B.4", TABLE, f"Prompts in which scheme {scheme} shifts from native", _shift(scheme))
        for scheme in STUDY_SCHEMES
    ),
)

"""Claims about persistent layer-static schedules (study 2.1, 2.4.5, 3.6, B.4): counts, pairing, and the two reference axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, grouped
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from runner.protocols.common import processed_tokens
from runner.protocols.orders import IDENTITY, draw_schedule
from runner.protocols.persistent import STAGES
from schemas.job.persistent import STUDY_SCHEMES, PersistentJob
from schemas.tables import PERSISTENT_TRAJECTORIES

AXES = ("native_route", "native_tokens", "canonical_route", "canonical_tokens")
"""Columns of the two-axis table: reference, and what differs from it."""


@dataclass(frozen=True)
class Divergence:
    """How many trajectories differ from a reference, in the columns of AXES; None where the study does not say."""

    native_route: int
    native_tokens: int
    canonical_route: int | None = None
    canonical_tokens: int | None = None


@dataclass(frozen=True)
class PromptCase:
    """One prompt under one scheme. continuations: different token sequences."""

    prompt: str
    scheme: str
    divergence: Divergence
    continuations: int


@dataclass(frozen=True)
class PersistentFigures:
    """seeds: request seeds a prompt. trajectories: those there are, of distinct condition; complete: those with all their
    tokens. baselines: native references. identity: canonical references in the identity order. layers: trajectories with a
    route for every processed position and layer. axes: scheme -> divergence over all prompts, counted at once and not as a sum
    of `cases`.
    """

    prompts: int
    seeds: int
    schemes: tuple[str, ...]
    trajectories: int
    complete: Tally
    baselines: int
    axes: Mapping[str, Divergence]
    cases: tuple[PromptCase, ...]
    identity: Tally | None = None
    layers: Tally | None = None
    paired: Tally | None = None
    drawn: Tally | None = None

    @property
    def conditions(self) -> int:
        """Paired prompt-schedule conditions."""
        return self.prompts * self.seeds


def measure(evidence: Evidence) -> PersistentFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, PersistentJob)
    table = PERSISTENT_TRAJECTORIES.name
    references, rows = (evidence.rows(table, stage) for stage in STAGES)
    native = {row["prompt_id"]: row for row in references if row["schedule"] == "native"}
    canonical = {(row["prompt_id"], row["scheme"]): row for row in references if row["schedule"] == "identity"}

    def divergence(group: Sequence[Row]) -> Divergence:
        def differing(reference: Callable[[Row], Row | None], column: str) -> int:
            found = ((row, reference(row)) for row in group)
            return sum(other is None or row[column] != other[column] for row, other in found)

        def of_native(row: Row) -> Row | None:
            return native.get(row["prompt_id"])

        def of_identity(row: Row) -> Row | None:
            return canonical.get((row["prompt_id"], row["scheme"]))

        return Divergence(
            differing(of_native, "routes_sha256"),
            differing(of_native, "token_ids"),
            differing(of_identity, "routes_sha256"),
            differing(of_identity, "token_ids"),
        )

    conditions = grouped(rows, "prompt_id", "request_seed")
    cases = grouped(rows, "prompt_id", "scheme")
    return PersistentFigures(
        prompts=len(evidence.prompts),
        seeds=job.request_seeds,
        schemes=job.schemes,
        trajectories=len({(row["prompt_id"], row["request_seed"], row["scheme"]) for row in rows}),
        complete=Tally.of((len(row["token_ids"]) == job.horizon, _where(row), row[FILE]) for row in rows),
        baselines=len(native),
        axes={scheme: divergence(group) for scheme, group in grouped(rows, "scheme").items()},
        cases=tuple(
            PromptCase(prompt, scheme, divergence(group), len({tuple(row["token_ids"]) for row in group}))
            for (prompt, scheme), group in cases.items()
        ),
        identity=Tally.of(
            (set(row["orders"]) == {IDENTITY}, f"{where[0]}, scheme {where[1]}", row[FILE]) for where, row in canonical.items()
        ),
        layers=Tally.of((has_every_route(row), _where(row), row[FILE]) for row in (*references, *rows)),
        paired=Tally.of(_paired(group, job.schemes) for group in conditions.values()),
        drawn=Tally.of(_drawn(row, job.experiment_seed) for row in rows),
    )


def has_every_route(row: Row) -> bool:
    """A route for each processed position and each layer; layers are as many as orders, which native has none of."""
    positions = processed_tokens(len(row["prompt_token_ids"]), len(row["token_ids"]))
    layers = len(row["orders"]) if row["schedule"] != "native" else row["routes_compared"] // positions
    return bool(row["routes_compared"] == positions * layers)


def _paired(group: Sequence[Row], schemes: Sequence[str]) -> tuple[bool, str, str]:
    """Every scheme once, all under one schedule."""
    other = next((row for row in group if row["orders"] != group[0]["orders"]), group[0])
    right = other is group[0] and sorted(row["scheme"] for row in group) == sorted(schemes)
    return right, f"{other['prompt_id']}, request seed {other['request_seed']}", str(other[FILE])


def _drawn(row: Row, experiment_seed: int) -> tuple[bool, str, str]:
    layers, terms = len(row["orders"]), row["experts_per_token"]
    drawn = draw_schedule(experiment_seed, row["prompt_id"], row["request_seed"], layers, terms)
    return tuple(row["orders"]) == drawn, _where(row), str(row[FILE])


def _where(row: Row) -> str:
    return f"{row['prompt_id']}, scheme {row['scheme']}, request seed {row['request_seed']}"


def _baselines(one: PersistentFigures) -> Check:
    schemes = one.conditions * len(one.schemes)
    found, expected = (
        f"{native}, {all_of + native} in all" for native, all_of in ((one.baselines, one.trajectories), (one.prompts, schemes))
    )
    return same(found, expected, f"{schemes}+{one.prompts}")


def _count(one: PersistentFigures) -> Check:
    schemes = len(one.schemes)
    return same(one.trajectories, one.conditions * schemes, f"{one.prompts}*{one.seeds}*{schemes}")


def _sums(one: PersistentFigures) -> Check | Absent:
    """Each column of the two-axis table is the sum over its prompts, as far as these are known. Shown are those of tokens."""
    checks = []
    for scheme, axes in one.axes.items():
        own = [case.divergence for case in one.cases if case.scheme == scheme]
        for axis in AXES:
            terms = [value for case in own if (value := getattr(case, axis)) is not None]
            if len(terms) == len(own) > 0:
                total = Check("+".join(map(str, terms)), str(getattr(axes, axis)), sum(terms) == getattr(axes, axis))
                checks.append((axis, f"{scheme} {axis.replace('_', ' ')}", total))
    whole = together((name, check) for _, name, check in checks)
    shown = together((name, check) for axis, name, check in checks if axis.endswith("tokens"))
    if isinstance(whole, Absent) or isinstance(shown, Absent):
        return whole
    return Check(shown.found, shown.expected, whole.holds, whole.fault)


def _bounds(one: PersistentFigures) -> Check | Absent:
    """Continuations other than native's come from diverging trajectories; where any trajectory keeps native's, it is one more."""

    def possible(case: PromptCase) -> bool:
        differing = case.divergence.native_tokens
        native = int(differing < one.seeds)
        return 0 <= differing <= one.seeds and native + (differing > 0) <= case.continuations <= native + differing

    return every(
        Tally.of(
            (
                possible(case),
                f"{case.prompt}, scheme {case.scheme}: {case.continuations} continuations",
                "",
            )
            for case in one.cases
        )
    )


def _axes(scheme: str) -> Callable[[PersistentFigures], str | Absent]:
    def figure(one: PersistentFigures) -> str | Absent:
        found = one.axes.get(scheme)
        if found is None:
            return Absent(f"no trajectories of scheme {scheme}")
        native = f"native: route {found.native_route}, tokens {found.native_tokens}"
        return f"{native}; canonical: route {found.canonical_route}, tokens {found.canonical_tokens}; of {one.conditions}"

    return figure


def _detail(scheme: str) -> Callable[[PersistentFigures], str | Absent]:
    def figure(one: PersistentFigures) -> str | Absent:
        found = [
            f"{case.prompt} {case.divergence.native_tokens}/{one.seeds}, {case.continuations}"
            for case in one.cases
            if case.scheme == scheme
        ]
        return "; ".join(found) if found else Absent(f"no trajectories of scheme {scheme}")

    return figure


TABLE = PERSISTENT_TRAJECTORIES.name

CLAIMS: tuple[Claim[PersistentFigures], ...] = (
    structural("trajectories", "2.1", TABLE, "Trajectories are prompts times request seeds times schemes", _count),
    structural(
        "tokens", "2.1", TABLE, "Each has all its tokens", lambda one: every(one.complete, one.conditions * len(one.schemes))
    ),
    structural("baselines", "2.1", TABLE, "One native baseline a prompt, beside these", _baselines),
    structural(
        "identity",
        "2.7",
        TABLE,
        "One canonical reference a prompt and scheme, in the identity order",
        lambda one: UNPUBLISHED if one.identity is None else every(one.identity, one.prompts * len(one.schemes)),
    ),
    structural("layers", "2.4.5", TABLE, "One order a layer, one route a position and layer", lambda one: every(one.layers)),
    structural(
        "pairing",
        "2.4.5",
        TABLE,
        "The schemes of a prompt and request seed have one schedule",
        lambda one: UNPUBLISHED if one.paired is None else every(one.paired, one.conditions, f"{one.prompts}*{one.seeds}"),
    ),
    structural("drawn", "2.4.5", TABLE, "Schedules are those that the generator draws", lambda one: every(one.drawn)),
    structural("sums", "3.6, B.4", TABLE, "The two-axis table is the sum of its prompts", _sums),
    structural("bounds", "B.4", TABLE, "Continuations and divergences can occur together", _bounds),
    *(
        claim
        for scheme in STUDY_SCHEMES
        for claim in (
            empirical(f"axes.{scheme}", "3.6", TABLE, f"Scheme {scheme} on the two reference axes", _axes(scheme)),
            empirical(
                f"prompts.{scheme}",
                "B.4",
                TABLE,
                f"Scheme {scheme}: token sequences that leave native, and how many different ones",
                _detail(scheme),
            ),
        )
    ),
)

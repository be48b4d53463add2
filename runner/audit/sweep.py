"""Claims about the single-layer sweep (study 2.6, 3.2): the algebra of orders and classes, and what the branches gave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import kernels
from runner.audit.evidence import FILE, Evidence, Row, first_difference, grouped
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from runner.protocols.sweep import OF_THE_STATE, OF_THE_UNIT
from schemas.job.sweep import SweepJob
from schemas.tables import SWEEP_FORKS, SWEEP_ORDERS

SHOWN_VOLUMES = 6


@dataclass(frozen=True)
class SweepCase:
    """One prompt under one scheme. branches: orders, of scheme B classes. not_native: of these, with another post-mHC state than
    native. pairs: classes whose two orders give the same bits and tokens. volumes: branches of each basin, descending.
    """

    label: str
    scheme: str
    terms: int
    raw_orders: int
    branches: int
    moe_outputs: int
    post_mhc_states: int
    not_native: int
    texts: int
    sequences: int | None = None
    pairs: Tally | None = None
    volumes: tuple[int, ...] | None = None

    @property
    def orders(self) -> int:
        return math.factorial(self.terms)


@dataclass(frozen=True)
class SweepFigures:
    """futures: post-mHC states, each with one continuation whatever order gave it. forks:
    units that found the same fork as their prompt's first.
    decided: orders whose comparison with native is that of their tokens and digests.
    """

    prompts: int
    schemes: tuple[str, ...]
    cases: tuple[SweepCase, ...]
    futures: Tally | None = None
    forks: Tally | None = None
    decided: Tally | None = None


def measure(evidence: Evidence) -> SweepFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, SweepJob)
    forks, orders = evidence.rows(SWEEP_FORKS.name), evidence.rows(SWEEP_ORDERS.name)
    of_prompt = grouped(forks, "prompt_id")
    cases = grouped(orders, "prompt_id", "scheme")
    return SweepFigures(
        prompts=len(evidence.prompts),
        schemes=job.schemes,
        cases=tuple(_case(f"{key[0]} {key[1]}", rows, _terms(of_prompt.get(key[0], []))) for key, rows in cases.items()),
        futures=Tally.of(_future(rows) for rows in grouped(orders, "prompt_id", "post_mhc_sha256").values()),
        forks=Tally.of(_fork(row, of_prompt[row["prompt_id"]][0]) for row in forks),
        decided=Tally.of(_decided(row, of_prompt.get(row["prompt_id"], [])) for row in orders),
    )


def _terms(forks: Sequence[Row]) -> int:
    return len(forks[0]["fork_experts"]) if forks else 0


def _case(label: str, rows: Sequence[Row], terms: int) -> SweepCase:
    scheme = str(rows[0]["scheme"])
    in_classes = scheme == "B"
    algebra = kernels.structural_classes(terms) if terms else []
    classes = {order: number for number, pair in enumerate(algebra) for order in pair}
    members: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda one: int(one["order"])):
        members.setdefault(classes.get(row["order"], -1) if in_classes else row["order"], []).append(row)
    volumes = Counter(tuple(group[0]["token_ids"]) for group in members.values())
    return SweepCase(
        label=label,
        scheme=scheme,
        terms=terms,
        raw_orders=len({row["order"] for row in rows if 0 <= row["order"] < len(classes)}),
        branches=len(members),
        moe_outputs=len({row["moe_output_sha256"] for row in rows}),
        post_mhc_states=len({row["post_mhc_sha256"] for row in rows}),
        not_native=sum(not group[0]["equals_native"] for group in members.values()),
        texts=len({row["text"] for row in rows}),
        sequences=len({tuple(row["token_ids"]) for row in rows}),
        pairs=Tally.of(_pair(label, number, group) for number, group in members.items()) if in_classes else None,
        volumes=tuple(sorted(volumes.values(), reverse=True)),
    )


def _pair(label: str, number: int, group: Sequence[Row]) -> tuple[bool, str, str]:
    columns = ("structural_class", "moe_output_sha256", "post_mhc_sha256", "token_ids", "text")
    right = len(group) == 2 and group[0]["structural_class"] == number and all(group[0][one] == group[1][one] for one in columns)
    return right, f"{label}, class {number}", str(group[-1][FILE])


def _future(rows: Sequence[Row]) -> tuple[bool, str, str]:
    other = next((row for row in rows if any(row[column] != rows[0][column] for column in OF_THE_STATE)), rows[0])
    return other is rows[0], f"{other['prompt_id']}, scheme {other['scheme']}, order {other['order']}", str(other[FILE])


def _fork(row: Row, first: Row) -> tuple[bool, str, str]:
    own = OF_THE_UNIT | {FILE}
    where = f"{row['prompt_id']}, scheme {row['scheme']}, branches from {row['first_branch']}"
    return all(row[column] == first[column] for column in row if column not in own), where, str(row[FILE])


def _decided(row: Row, forks: Sequence[Row]) -> tuple[bool, str, str]:
    """What an order says of native is what both rows hold: its first difference, equal states, equal routes."""
    right = False
    if forks:
        native = forks[0]
        right = row["first_difference"] == first_difference(native["native_token_ids"], row["token_ids"])
        right &= row["equals_native"] == (row["post_mhc_sha256"] == native["native_post_mhc_sha256"])
        right &= (row["routes_differing"] == 0) == (row["routes_sha256"] == native["native_routes_sha256"])
        right &= row["linf_post_mhc"] == 0 or not row["equals_native"]
    return bool(right), f"{row['prompt_id']}, scheme {row['scheme']}, order {row['order']}", str(row[FILE])


def _each(look: Callable[[SweepCase], Check]) -> Callable[[SweepFigures], Check | Absent]:
    return lambda figures: together((case.label, look(case)) for case in figures.cases)


def _of_schemes(look: Callable[[SweepCase], str], *schemes: str) -> Callable[[SweepFigures], str | Absent]:
    """An empirical figure of every case under these schemes."""

    def figure(figures: SweepFigures) -> str | Absent:
        found = [(case.label, look(case)) for case in figures.cases if case.scheme in schemes]
        if not found:
            return Absent(f"no branches of scheme {' or '.join(schemes)}")
        return found[0][1] if len(found) == 1 else "; ".join(f"{label}: {text}" for label, text in found)

    return figure


def _classes(case: SweepCase) -> Check:
    if case.scheme == "B":
        return same(case.branches, case.orders // 2, f"{case.terms}!/2")
    return same(case.branches, case.orders, f"{case.terms}!")


def _pairs(figures: SweepFigures) -> Check | Absent:
    in_classes = [case for case in figures.cases if case.pairs is not None]
    if not in_classes:
        return Absent("no pairs, but for scheme B's" if figures.futures is not None else UNPUBLISHED.reason)
    checks = ((case.label, every(case.pairs, case.orders // 2, f"{case.terms}!/2")) for case in in_classes)
    return together((label, check) for label, check in checks if isinstance(check, Check))


def _bounds(case: SweepCase) -> Check:
    """A later stage is a function of the one before it, so it cannot have more values."""
    chain = [
        case.texts,
        *([] if case.sequences is None else [case.sequences]),
        case.post_mhc_states,
        case.moe_outputs,
        case.branches,
    ]
    shown = " <= ".join(map(str, chain))
    return Check(shown, "ascending", chain == sorted(chain) and case.not_native <= case.branches)


def _volumes(figures: SweepFigures) -> Check | Absent:
    known = [(case, case.volumes) for case in figures.cases if case.volumes is not None]
    if not known:
        return UNPUBLISHED
    return together((case.label, same(sum(volumes), case.branches)) for case, volumes in known)


def _texts(case: SweepCase) -> str:
    return f"{case.texts} text{'s' * (case.texts != 1)}"


def _basins(case: SweepCase) -> str:
    """Texts, as the study counts basins, and the largest volumes."""
    if case.volumes is None:
        return _texts(case)
    more = "" if len(case.volumes) <= SHOWN_VOLUMES else ", .."
    return f"{_texts(case)}; volumes {', '.join(map(str, case.volumes[:SHOWN_VOLUMES]))}{more}"


def _states(case: SweepCase) -> str:
    return f"{case.moe_outputs} MoE outputs, {case.post_mhc_states} post-mHC states, {case.not_native} not native"


ORDERS = SWEEP_ORDERS.name

CLAIMS: tuple[Claim[SweepFigures], ...] = (
    structural(
        "cases",
        "3.2",
        ORDERS,
        "Every prompt was swept under every scheme",
        lambda one: same(len(one.cases), one.prompts * len(one.schemes), f"{one.prompts}*{len(one.schemes)}"),
    ),
    structural(
        "orders",
        "2.6",
        ORDERS,
        "k terms have k! orders, each enumerated",
        _each(lambda case: same(case.raw_orders, case.orders, f"{case.terms}!")),
    ),
    structural("classes", "2.6", ORDERS, "Branches are the k! orders, of scheme B the k!/2 classes", _each(_classes)),
    structural("pairs", "2.6", ORDERS, "The two orders of a class give the same bits, tokens and text", _pairs),
    structural(
        "bounds",
        "3.2",
        ORDERS,
        "Texts, token sequences, states, outputs, branches: no more of one than of the next",
        _each(_bounds),
    ),
    structural("volumes", "3.2", ORDERS, "Basin volumes add up to the branches", _volumes),
    structural(
        "futures", "3.2.2", ORDERS, "Equal post-mHC states at the fork have equal futures", lambda one: every(one.futures)
    ),
    structural(
        "decided", "2.8", ORDERS, "What an order says of native is what tokens and digests say", lambda one: every(one.decided)
    ),
    structural("forks", "2.4.1", SWEEP_FORKS.name, "Every unit of a prompt found the same fork", lambda one: every(one.forks)),
    *(
        claim
        for scheme in ("A", "B")
        for claim in (
            empirical(f"basins.{scheme}", "3.2", ORDERS, f"Continuation basins of scheme {scheme}", _of_schemes(_basins, scheme)),
            empirical(f"states.{scheme}", "3.2", ORDERS, f"Different states of scheme {scheme}", _of_schemes(_states, scheme)),
        )
    ),
    empirical("basins.others", "3.2", ORDERS, "Continuation basins of the other schemes", _of_schemes(_basins, "P32", "C")),
)

"""The ledger: claims of the study, what was found for each, and the verdict (study A.3).

A structural claim must hold on any checkpoint: it is about arithmetic, determinism and bookkeeping. An empirical one is a fact
about one checkpoint: it is measured and stands beside the study's figure for Flash, which decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

Kind = Literal["structural", "empirical"]
Verdict = Literal["holds", "fails", "measured", "not applicable"]

F = TypeVar("F")
"""Figures of one protocol: what its claims are about, counted from a run or published by the study."""


@dataclass(frozen=True)
class Tally:
    """How many of the things looked at are as they must be. fault, file: the first that is not, and where its row lies."""

    good: int
    total: int
    fault: str = ""
    file: str = ""

    @classmethod
    def of(cls, looked_at: Iterable[tuple[bool, str, str]]) -> Tally:
        """Of (it is as it must be, what it is, file of its row)."""
        good = total = 0
        first = ("", "")
        for right, what, file in looked_at:
            total += 1
            good += right
            if not right and first == ("", ""):
                first = (what, file)
        return cls(good, total, *first)

    def __str__(self) -> str:
        return f"{self.good}/{self.total}"


@dataclass(frozen=True)
class Check:
    """What a structural claim found, what it must be, and whether it is. fault, file: the first thing that contradicts it."""

    found: str
    expected: str
    holds: bool
    fault: str = ""
    file: str = ""


@dataclass(frozen=True)
class Absent:
    """The figures do not have what a claim is about, and why."""

    reason: str


UNPUBLISHED = Absent("not among the published figures")


def every(tally: Tally | None, expected: int | None = None, formula: str = "") -> Check | Absent:
    """All that was looked at is as it must be, and was as much as `expected`, which `formula` explains; None: as much as there
    is.
    """
    if tally is None:
        return UNPUBLISHED
    if expected is None and tally.total == 0:
        return Absent("nothing to look at")
    wanted = tally.total if expected is None else expected
    shown = f"{wanted}/{wanted}" + (f" = {formula}" if formula else "")
    return Check(str(tally), shown, tally.good == tally.total == wanted, tally.fault, tally.file)


def same(found: object, expected: object, formula: str = "", fault: str = "") -> Check:
    """One figure is another, which `formula` explains."""
    return Check(str(found), f"{expected}" + (f" = {formula}" if formula else ""), found == expected, fault)


def together(checks: Iterable[tuple[str, Check]]) -> Check | Absent:
    """Several named checks as one; its fault is that of the first that does not hold."""
    parts = list(checks)
    if not parts:
        return Absent("nothing to look at")
    wrong = next(((name, one) for name, one in parts if not one.holds), None)
    fault = f"{wrong[0]}: {wrong[1].fault or f'{wrong[1].found} instead of {wrong[1].expected}'}" if wrong else ""
    return Check(
        _listed([(name, one.found) for name, one in parts]),
        _listed([(name, one.expected) for name, one in parts]),
        wrong is None,
        fault,
        wrong[1].file if wrong else "",
    )


def _listed(values: Sequence[tuple[str, str]]) -> str:
    """Named values in a line; of equal ones the value once."""
    if len({value for _, value in values}) == 1:
        return values[0][1] + (" each" if len(values) > 1 else "")
    return ", ".join(f"{name} {value}" for name, value in values)


@dataclass(frozen=True)
class Claim(Generic[F]):
    """name: unique in its protocol. section: of the study. table: the dataset's table that the evidence stands in.

    look: of a structural claim a Check; of an empirical one a text, which is made of the study's figures in the same way.
    """

    name: str
    section: str
    kind: Kind
    statement: str
    table: str
    look: Callable[[F], Check | Absent | str]


def structural(name: str, section: str, table: str, statement: str, look: Callable[[F], Check | Absent]) -> Claim[F]:
    """A claim that must hold on any checkpoint."""
    return Claim(name, section, "structural", statement, table, look)


def empirical(name: str, section: str, table: str, statement: str, look: Callable[[F], str | Absent]) -> Claim[F]:
    """A claim that is measured."""
    return Claim(name, section, "empirical", statement, table, look)


@dataclass(frozen=True)
class Entry:
    """A line of the ledger. beside: what a structural claim expects, or the study's figure for Flash.

    run, table, file: where the evidence stands; run is "" where no run has any, and "study" for the published figures. file: of
    the first fault, else the folder of the table. fault: what contradicts the claim.
    """

    claim: str
    section: str
    kind: Kind
    statement: str
    found: str
    beside: str
    verdict: Verdict
    run: str
    table: str
    file: str
    fault: str


@dataclass(frozen=True)
class Ledger:
    """All entries, in the order of protocols and claims."""

    entries: Sequence[Entry]

    @property
    def holds(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.verdict == "fails"]

    def count(self, verdict: Verdict) -> int:
        return sum(entry.verdict == verdict for entry in self.entries)

    def as_dict(self) -> dict[str, Any]:
        counts = {verdict: self.count(verdict) for verdict in ("holds", "fails", "measured", "not applicable")}
        return {"holds": self.holds, "counts": counts, "claims": [asdict(entry) for entry in self.entries]}


def entry(claim: Claim[F], protocol: str, outcome: Check | Absent | str, beside: str, *, run: str, folder: str) -> Entry:
    """What a claim's outcome is in the ledger."""
    verdict: Verdict
    match outcome:
        case Absent(reason):
            found, beside, verdict, file, fault = reason, beside if claim.kind == "empirical" else "", "not applicable", "", ""
        case Check():
            found, beside, verdict = outcome.found, outcome.expected, "holds" if outcome.holds else "fails"
            fault = "" if outcome.holds else outcome.fault or f"{outcome.found} instead of {outcome.expected}"
            file = outcome.file or folder
        case _:
            found, verdict, file, fault = outcome, "measured", folder, ""
    name = f"{protocol}.{claim.name}"
    return Entry(name, claim.section, claim.kind, claim.statement, found, beside, verdict, run, claim.table, file, fault)

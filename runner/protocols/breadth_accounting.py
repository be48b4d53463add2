"""Who separated at which horizon, by prompt ID (study B.3).

Only the first separation of a prompt is an event. A row of a later stage that shows an old one again is a repeated event: the
study's own 32-token file had five, which a count of differing rows would have added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.protocol import ReportTable
from schemas.catalog import Prompt


@dataclass(frozen=True)
class HorizonAccount:
    """One stage's account; the sets hold prompt IDs.

    at_risk: prompts of the cohort that had a result in every earlier stage and were separated in none. without_result: of these,
    the ones this stage has no row for. new: separated here first. separated: separated here or before. differences: rows of the
    stage that show a separation. repeated: of these, rows of prompts separated before.
    """

    horizon: int
    at_risk: frozenset[str]
    without_result: frozenset[str]
    new: frozenset[str]
    separated: frozenset[str]
    differences: int
    repeated: int


@dataclass(frozen=True)
class BreadthAccount:
    """The accounts of all horizons, in ascending order, and the cohort that they are about."""

    prompts: Sequence[Prompt]
    horizons: Sequence[HorizonAccount]


def account(prompts: Sequence[Prompt], rows: Mapping[int, Iterable[Mapping[str, Any]]]) -> BreadthAccount:
    """Account for the rows (prompt_id, separated) of each horizon. Raises ValueError for a row of a prompt outside the cohort."""
    cohort = frozenset(prompt.prompt_id for prompt in prompts)
    separated: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    accounts = []
    for horizon in sorted(rows):
        stage = list(rows[horizon])
        seen = frozenset(row["prompt_id"] for row in stage)
        if strangers := seen - cohort:
            raise ValueError(f"horizon {horizon}: rows of prompts outside the cohort: {sorted(strangers)}")
        differing = [row["prompt_id"] for row in stage if row["separated"]]
        at_risk = cohort - separated - lost
        accounts.append(
            HorizonAccount(
                horizon=horizon,
                at_risk=at_risk,
                without_result=at_risk - seen,
                new=frozenset(differing) - separated,
                separated=separated | frozenset(differing),
                differences=len(differing),
                repeated=sum(prompt in separated for prompt in differing),
            )
        )
        lost |= at_risk - seen
        separated |= frozenset(differing)
    return BreadthAccount(prompts, accounts)


def report_tables(breadth: BreadthAccount) -> list[ReportTable]:
    """The stage table of B.3, and the cumulative separations by language and by kind."""
    total = len(breadth.prompts)
    stage_rows = [
        (
            f"{one.horizon} tokens",
            len(one.at_risk),
            len(one.new),
            f"{len(one.separated)}/{total}",
            one.differences,
            one.repeated,
            len(one.without_result),
        )
        for one in breadth.horizons
    ]
    columns = ("horizon", "at risk", "new", "cumulative", "differing rows", "repeated", "without result")
    return [
        ReportTable("Separation by horizon", columns, stage_rows),
        _by_group("language", {one.prompt_id: one.language for one in breadth.prompts}, breadth),
        _by_group("kind", {one.prompt_id: one.kind for one in breadth.prompts}, breadth),
    ]


def _by_group(column: str, groups: Mapping[str, str], breadth: BreadthAccount) -> ReportTable:
    rows = []
    for group in sorted(set(groups.values())):
        members = {prompt for prompt, its in groups.items() if its == group}
        rows.append((group, *(f"{len(one.separated & members)}/{len(members)}" for one in breadth.horizons)))
    return ReportTable(
        f"Cumulative separation by {column}", (column, *(f"{one.horizon} tokens" for one in breadth.horizons)), rows
    )

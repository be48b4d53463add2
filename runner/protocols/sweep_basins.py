"""What a sweep's rows amount to: distinct states and outputs, and basins of branches with one continuation (study 3.2).

Ordered token IDs decide what one continuation is (study 2.8). The measure is the branch: an order, for scheme B a class of two
orders, so that a class counts once. A volume is no probability of anything that happens in deployment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Sequence[Mapping[str, Any]]
"""Rows of sweep_orders of one prompt and scheme."""


@dataclass(frozen=True)
class SweepCounts:
    """Of one prompt and scheme. branches: orders, for scheme B classes. differing_from_native counts branches."""

    raw_orders: int
    branches: int
    distinct_moe_outputs: int
    distinct_post_mhc: int
    differing_from_native: int
    differing_route: int
    distinct_token_sequences: int
    distinct_texts: int

    @classmethod
    def of(cls, rows: Rows) -> SweepCounts:
        def distinct(column: str) -> int:
            return len({row[column] for row in rows})

        one_each = representatives(rows)
        return cls(
            raw_orders=len(rows),
            branches=len(one_each),
            distinct_moe_outputs=distinct("moe_output_sha256"),
            distinct_post_mhc=distinct("post_mhc_sha256"),
            differing_from_native=sum(not row["equals_native"] for row in one_each),
            differing_route=sum(row["routes_differing"] > 0 for row in one_each),
            distinct_token_sequences=distinct("token_sha256"),
            distinct_texts=distinct("text"),
        )


@dataclass(frozen=True)
class Basin:
    """The branches with one continuation. first_order: the lowest of its orders. native: the continuation is native's."""

    token_ids: tuple[int, ...]
    token_sha256: str
    text: str
    branches: int
    raw_orders: int
    first_order: int
    native: bool


def representatives(rows: Rows) -> Rows:
    """A row a branch: of a structural class the row of its lowest order, else every row."""
    lowest: dict[tuple[bool, int], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda one: int(one["order"])):
        in_class = row["structural_class"] is not None
        lowest.setdefault((in_class, row["structural_class"] if in_class else row["order"]), row)
    return list(lowest.values())


def branches_of(rows: Rows) -> int:
    """Number of branches, which is the denominator of a volume."""
    return len(representatives(rows))


def basins(rows: Rows) -> list[Basin]:
    """The basins by descending volume, of equals the one with the lowest order first (Figure 2a)."""
    members: dict[str, list[Mapping[str, Any]]] = {}
    for row in representatives(rows):
        members.setdefault(row["token_sha256"], []).append(row)
    found = [
        Basin(
            token_ids=tuple(group[0]["token_ids"]),
            token_sha256=token_sha256,
            text=group[0]["text"],
            branches=len(group),
            raw_orders=sum(row["token_sha256"] == token_sha256 for row in rows),
            first_order=min(row["order"] for row in group),
            native=group[0]["first_difference"] is None,
        )
        for token_sha256, group in members.items()
    ]
    return sorted(found, key=lambda basin: (-basin.branches, basin.first_order))

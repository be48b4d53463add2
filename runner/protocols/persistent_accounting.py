"""The two reference axes of study 3.6 and their detail by prompt (B.4).

Ordered token IDs decide whether sequences differ, route trajectories are compared as sets of experts at every position and layer.
Divergence from native is a scheme's compatibility, divergence from its own identity order its order sensitivity (study 2.7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.protocol import ReportTable

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SchemeAccount:
    """One prompt under one scheme. trajectories: random schedules that have a result. The next four: how many of these differ.
    continuations: different token sequences among them. shift_*: whether the identity order differs from native.
    """

    prompt_id: str
    scheme: str
    trajectories: int
    native_route: int
    native_tokens: int
    canonical_route: int
    canonical_tokens: int
    continuations: int
    complete_tokens: frozenset[int]
    shift_route: bool
    shift_tokens: bool


def account(references: Iterable[Row], schedules: Iterable[Row]) -> list[SchemeAccount]:
    """Account for the trajectories of each prompt and scheme that has both references, in the order of the references' rows."""
    native: dict[str, Row] = {}
    canonical: dict[tuple[str, str], Row] = {}
    for row in references:
        if row["schedule"] == "native":
            native[row["prompt_id"]] = row
        else:
            canonical[row["prompt_id"], row["scheme"]] = row
    random: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in schedules:
        random[row["prompt_id"], row["scheme"]].append(row)

    def differing(rows: Iterable[Row], reference: Row, column: str) -> int:
        return sum(row[column] != reference[column] for row in rows)

    return [
        SchemeAccount(
            prompt_id=prompt,
            scheme=scheme,
            trajectories=len(random[prompt, scheme]),
            native_route=differing(random[prompt, scheme], native[prompt], "routes_sha256"),
            native_tokens=differing(random[prompt, scheme], native[prompt], "token_ids"),
            canonical_route=differing(random[prompt, scheme], reference, "routes_sha256"),
            canonical_tokens=differing(random[prompt, scheme], reference, "token_ids"),
            continuations=len({row["token_sha256"] for row in random[prompt, scheme]}),
            complete_tokens=frozenset(len(row["token_ids"]) for row in random[prompt, scheme]),
            shift_route=reference["routes_sha256"] != native[prompt]["routes_sha256"],
            shift_tokens=reference["token_ids"] != native[prompt]["token_ids"],
        )
        for (prompt, scheme), reference in canonical.items()
        if prompt in native
    ]


def report_tables(accounts: Iterable[SchemeAccount], *, planned: int, horizon: int) -> list[ReportTable]:
    """The two-axis table of 3.6, and B.4. planned: random schedules a scheme."""
    by_scheme: dict[str, list[SchemeAccount]] = defaultdict(list)
    for one in accounts:
        by_scheme[one.scheme].append(one)
    axes, details = [], []
    for scheme, group in by_scheme.items():
        total = sum(one.trajectories for one in group)
        complete = total if all(one.complete_tokens <= {horizon} for one in group) else 0
        sums = (
            f"{sum(getattr(one, column) for one in group)}/{total}"
            for column in ("native_route", "native_tokens", "canonical_route", "canonical_tokens")
        )
        axes.append((scheme, f"{complete}/{planned}", *sums))
        details += [
            (
                one.prompt_id,
                one.scheme,
                f"{one.native_route}/{one.trajectories}",
                f"{one.native_tokens}/{one.trajectories}",
                one.continuations,
            )
            for one in group
        ]
    details.sort(key=lambda row: str(row[0]))
    return [
        ReportTable(
            "Two reference axes: random schedules that differ",
            ("scheme", f"with {horizon} tokens", "native route", "native tokens", "canonical route", "canonical tokens"),
            axes,
        ),
        ReportTable("By prompt", ("prompt", "scheme", "native route", "native tokens", "unique continuations"), details),
        shift_table([one for group in by_scheme.values() for one in group]),
    ]


def shift_table(accounts: Iterable[SchemeAccount]) -> ReportTable:
    """Identity order against native, by scheme."""
    by_scheme: dict[str, list[SchemeAccount]] = defaultdict(list)
    for one in accounts:
        by_scheme[one.scheme].append(one)
    rows = [
        (
            scheme,
            f"{sum(one.shift_route for one in group)}/{len(group)}",
            f"{sum(one.shift_tokens for one in group)}/{len(group)}",
        )
        for scheme, group in by_scheme.items()
    ]
    return ReportTable("Canonical (identity order) against native: prompts that differ", ("scheme", "route", "tokens"), rows)

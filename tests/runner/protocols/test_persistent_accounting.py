"""The two reference axes, from rows written by hand."""

from __future__ import annotations

from typing import Any

from runner.protocols.persistent_accounting import account, report_tables, shift_table


def row(scheme: str, schedule: str, tokens: list[int], route: str) -> dict[str, Any]:
    return {
        "prompt_id": "p",
        "scheme": scheme,
        "schedule": schedule,
        "token_ids": tokens,
        "token_sha256": str(tokens),
        "routes_sha256": route,
    }


REFERENCES = [row("native", "native", [1, 2], "r"), row("C", "identity", [1, 2], "r"), row("B", "identity", [1, 3], "s")]
SCHEDULES = [
    row("C", "random", [1, 2], "r"),
    row("B", "random", [1, 2], "s"),
    row("C", "random", [1, 2], "t"),
    row("B", "random", [1, 3], "u"),
    row("B", "random", [1, 3], "r"),
]


def test_each_axis_has_its_own_reference() -> None:
    c, b = account(REFERENCES, SCHEDULES)
    assert (c.scheme, c.native_route, c.native_tokens, c.canonical_route, c.canonical_tokens) == ("C", 1, 0, 1, 0)
    assert (b.scheme, b.native_route, b.native_tokens, b.canonical_route, b.canonical_tokens) == ("B", 2, 2, 2, 1)
    assert (c.trajectories, c.continuations, b.trajectories, b.continuations) == (2, 1, 3, 2)


def test_a_shift_of_the_scheme_is_told_apart_from_its_order() -> None:
    c, b = account(REFERENCES, SCHEDULES)
    assert (c.shift_route, c.shift_tokens) == (False, False)
    assert (b.shift_route, b.shift_tokens) == (True, True)
    assert shift_table([c, b]).rows == [("C", "0/1", "0/1"), ("B", "1/1", "1/1")]


def test_the_two_axis_table_says_how_many_are_complete() -> None:
    axes, details, _ = report_tables(account(REFERENCES, SCHEDULES), planned=3, horizon=2)
    assert axes.rows == [("C", "2/3", "1/2", "0/2", "1/2", "0/2"), ("B", "3/3", "2/3", "2/3", "2/3", "1/3")]
    assert details.rows == [("p", "C", "1/2", "0/2", 1), ("p", "B", "2/3", "2/3", 2)]


def test_trajectories_of_another_length_are_not_complete() -> None:
    axes, _, _ = report_tables(account(REFERENCES, SCHEDULES), planned=3, horizon=8)
    assert [line[1] for line in axes.rows] == ["0/3", "0/3"]


def test_a_prompt_without_its_references_is_left_out() -> None:
    assert account(REFERENCES[:1], SCHEDULES) == []
    assert account(REFERENCES[1:], SCHEDULES) == []

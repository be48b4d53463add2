"""Counts and basins of a sweep, from rows written by hand."""

from __future__ import annotations

from typing import Any

from runner.protocols.sweep_basins import SweepCounts, basins, branches_of


def row(order: int, text: str, *, state: str = "", number: int | None = None, native: bool = False) -> dict[str, Any]:
    return {
        "order": order,
        "structural_class": number,
        "moe_output_sha256": f"m{state or order}",
        "post_mhc_sha256": f"p{state or order}",
        "equals_native": native,
        "token_ids": [ord(letter) for letter in text],
        "token_sha256": f"t{text}",
        "text": text.strip(),
        "first_difference": None if text == "n" else 1,
        "routes_differing": 0 if native else 3,
    }


A = [row(0, "n", native=True), row(1, "x"), row(2, "y", state="2"), row(3, "y", state="2"), row(4, "n"), row(5, "y ")]
B = [
    row(0, "x", state="c", number=0),
    row(1, "y", state="d", number=1),
    row(2, "x", state="c", number=0),
    row(3, "y", state="d", number=1),
]


def test_orders_are_the_branches_of_a() -> None:
    counts = SweepCounts.of(A)
    assert (counts.raw_orders, counts.branches) == (6, 6)
    assert (counts.distinct_moe_outputs, counts.distinct_post_mhc) == (5, 5)
    assert counts.differing_from_native == 5
    assert counts.differing_route == 5


def test_sequences_and_texts_are_counted_apart() -> None:
    counts = SweepCounts.of(A)
    assert (counts.distinct_token_sequences, counts.distinct_texts) == (4, 3)


def test_classes_are_the_branches_of_b_and_count_once() -> None:
    counts = SweepCounts.of(B)
    assert (counts.raw_orders, counts.branches, counts.differing_from_native) == (4, 2, 2)
    assert [(basin.branches, basin.raw_orders) for basin in basins(B)] == [(1, 2), (1, 2)]


def test_basins_come_by_volume_then_by_lowest_order() -> None:
    found = [(basin.text, basin.branches, basin.first_order, basin.native) for basin in basins(A)]
    assert found == [("n", 2, 0, True), ("y", 2, 2, False), ("x", 1, 1, False), ("y", 1, 5, False)]


def test_volumes_add_up_to_the_branches() -> None:
    for rows in (A, B):
        assert sum(basin.branches for basin in basins(rows)) == branches_of(rows)
        assert sum(basin.raw_orders for basin in basins(rows)) == len(rows)


def test_the_order_of_rows_does_not_matter() -> None:
    assert basins(A[::-1]) == basins(A)
    assert SweepCounts.of(B[::-1]) == SweepCounts.of(B)

"""Differences that are added, distances, and the class that becomes the branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from runner.protocols.endpoint import Choice, choose, equal_bits, inequalities, linf, literal_delta, rebuilt, wide_delta
from schemas.errors import InvalidInput
from schemas.unit import Unit

INF = np.float32(np.inf)


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def test_a_difference_of_equal_bits_changes_none_of_them() -> None:
    state = values(1.5, 0.0, -0.0, -INF, 3e-42)
    for delta in (literal_delta(state, state), wide_delta(state, state)):
        assert equal_bits(rebuilt(state, delta), state).all()


def test_an_fp32_difference_loses_low_bits_that_an_fp64_one_keeps() -> None:
    before, after = values(1.0e8), values(1.0000001)
    assert not equal_bits(rebuilt(before, literal_delta(before, after)), after).any()
    assert equal_bits(rebuilt(before, wide_delta(before, after)), after).all()


def test_addition_cannot_reach_minus_zero() -> None:
    before, after = values(-0.25), values(-0.0)
    for delta in (literal_delta(before, after), wide_delta(before, after)):
        assert not equal_bits(rebuilt(before, delta), after).any()


def test_deltas_have_the_precision_they_are_added_in() -> None:
    before, after = values(1.0), values(2.0)
    assert literal_delta(before, after).dtype == np.float32
    assert wide_delta(before, after).dtype == np.float64


def test_equal_minus_infinities_are_no_distance_apart() -> None:
    assert linf(values(-INF, 1.0), values(-INF, 1.5)) == 0.5
    assert linf(values(-INF), values(-INF)) == 0
    assert linf(values(-INF), values(1.0)) == np.inf


@dataclass
class Preferences:
    """A probe that separates for some classes, the farthest class last."""

    separates: tuple[int, ...] = (2, 4)
    asked: list[int] = field(default_factory=list)

    def separating(self, decode_inputs: int) -> Iterator[int]:
        self.asked.append(decode_inputs)
        yield from self.separates

    def by_linf(self) -> list[int]:
        return [5, 4, 3, 2, 1, 0]


def unit(structural_class: int | None, select: str) -> Unit:
    fork = {"structural_class": structural_class, "select": select}
    return Unit("control", "en-1", {"parameters": {"fork": fork, "decode_inputs": 8}})


def test_a_named_class_is_taken_without_a_search() -> None:
    probe = Preferences()
    assert choose(probe, unit(3, "first_separating"), lambda one: "") == Choice(3, "named", "")  # type: ignore[arg-type]
    assert probe.asked == []


def test_rules_choose_the_first_separating_or_the_farthest_class() -> None:
    probe: Any = Preferences()
    assert choose(probe, unit(None, "first_separating"), lambda one: "") == Choice(2, "first_separating", "")
    assert choose(probe, unit(None, "max_linf"), lambda one: "") == Choice(5, "max_linf", "")


def test_without_a_separating_class_the_farthest_is_taken() -> None:
    probe: Any = Preferences(separates=())
    assert choose(probe, unit(None, "first_separating"), lambda one: "") == Choice(5, "max_linf", "")


def test_a_class_that_cannot_serve_is_passed_over_and_said() -> None:
    probe: Any = Preferences()
    choice = choose(probe, unit(1, "first_separating"), lambda one: "no" if one in (1, 2) else "")
    assert choice == Choice(4, "first_separating", "class 1: no (and 1 more)")


def test_a_fork_without_a_usable_class_is_refused() -> None:
    probe: Any = Preferences()
    with pytest.raises(InvalidInput, match="prompt en-1: fork: found no class that can serve; class 2: never"):
        choose(probe, unit(None, "first_separating"), lambda one: "never")


ROW = {
    "routes_compared": 4, "routes_equal": 4, "branch_token_ids": [1], "substituted_token_ids": [1], "branch_text": "a",
    "substituted_text": "a",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, None),
        ({"routes_equal": 3}, "routes: 3 of 4 are equal"),
        ({"routes_compared": 3, "routes_equal": 3}, "routes: 3 compared instead of 4"),
        ({"substituted_token_ids": [2]}, "token_ids: the branch has [1], substituted [2]"),
        ({"substituted_text": "b"}, "text: the branch has 'a', substituted 'b'"),
    ],
)
def test_every_inequality_is_said(change: dict[str, Any], line: str | None) -> None:
    assert inequalities(ROW | change, ("routes",), {"routes": 4}) == ([] if line is None else [line])

"""Aggregation schemes (study 2.5) against a numpy version of their recurrences, for all 720 orders, bit for bit.

The numpy version rounds with tests/oracle/formats.py and adds FP32 numbers one at a time, in the order that itertools gives; it
shares nothing with the kernel.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.cases import captured, greedy
from oracle.formats import F32, round_bf16

import kernels

ORDERS = list(itertools.permutations(range(6)))
"""Place in this list = lexicographic rank."""
SCHEMES = ("P32", "C", "A", "B")


def reduced(terms: F32, shared: F32, scheme: str, order: tuple[int, ...]) -> F32:
    """terms [6,D], shared [D] -> [D]: a = +0; a = a + v in FP32, one term after another; A and B round a to BF16 every time."""
    operands = round_bf16(terms) if scheme in ("C", "B") else terms
    total = np.zeros(terms.shape[1], np.float32)
    for place in order:
        total = total + operands[place]
        if scheme in ("A", "B"):
            total = round_bf16(total)
    return round_bf16(total + shared)


@pytest.fixture(scope="module", params=["random", "spread", "captured"])
def operands(request: pytest.FixtureRequest, decoder: kernels.Decoder) -> tuple[F32, F32]:
    """Six terms [6,D] and a shared output [D] in BF16: of one size, of sizes over 2^20, and of a decode step at layer 5."""
    generator = np.random.default_rng(5)
    if request.param == "captured":
        ids = greedy(decoder, [1044, 268, 3055], 2)
        found = captured(decoder, ids, ["moe_terms", "moe_shared"])
        return found["moe_terms"][-1, 5], found["moe_shared"][-1, 5]
    sizes = 1.0 if request.param == "random" else 2.0 ** generator.integers(-10, 10, (6, 256))
    terms = (generator.standard_normal((6, 256)) * sizes).astype(np.float32)
    return terms, round_bf16(generator.standard_normal(256))


def test_ranks_are_lexicographic() -> None:
    assert [kernels.permutation(rank) for rank in range(720)] == ORDERS
    assert [kernels.permutation(rank, 3) for rank in range(6)] == list(itertools.permutations(range(3)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_order_gives_the_recurrences_bits(operands: tuple[F32, F32], scheme: str) -> None:
    terms, shared = operands
    expected = np.stack([reduced(terms, shared, scheme, order) for order in ORDERS])
    assert kernels.aggregate(terms, shared, scheme, range(720)).tobytes() == expected.tobytes()


def test_native_is_c_in_ascending_expert_id(operands: tuple[F32, F32]) -> None:
    """Reference section 10."""
    terms, shared = operands
    experts = [17, 3, 30, 0, 8, 21]
    expected = reduced(terms, shared, "C", tuple(int(place) for place in np.argsort(experts)))
    assert kernels.aggregate(terms, shared, "native", [0], expert_ids=experts)[0].tobytes() == expected.tobytes()


def test_classes_of_b_are_the_orders_that_swap_their_first_two() -> None:
    """Study 2.6: 360 pairs, ordered by their lower rank."""
    rank = {order: place for place, order in enumerate(ORDERS)}
    pairs = {tuple(sorted((rank[order], rank[order[1], order[0], *order[2:]]))) for order in ORDERS}
    assert len(pairs) == 360
    assert kernels.structural_classes() == sorted(pairs)


def test_b_gives_360_exact_pairs_and_a_does_not(operands: tuple[F32, F32]) -> None:
    """B's first addition is to +0 and exact, so its first two terms commute; A rounds the first term, so they need not."""
    terms, shared = operands
    pairs = kernels.structural_classes()
    of = {scheme: [row.tobytes() for row in kernels.aggregate(terms, shared, scheme, range(720))] for scheme in ("A", "B")}
    assert all(of["B"][low] == of["B"][high] for low, high in pairs)
    assert len({of["B"][low] for low, _ in pairs}) > 1
    assert any(of["A"][low] != of["A"][high] for low, high in pairs)


def test_schemes_differ_from_each_other(operands: tuple[F32, F32]) -> None:
    terms, shared = operands
    assert len({kernels.aggregate(terms, shared, scheme, [0]).tobytes() for scheme in SCHEMES}) == len(SCHEMES)


def test_rounding_ties_go_to_even_and_minus_zero_becomes_plus_zero() -> None:
    """Every step at 1 is 2^-7: half a step above 1 falls back, half a step above 1 + 2^-7 rises."""
    terms = np.zeros((6, 16), np.float32)
    terms[0, :4] = [1, 1 + 2.0**-7, -0.0, -1]
    terms[1, :4] = [2.0**-8, 2.0**-8, -0.0, -(2.0**-8)]
    terms[2:, 2] = -0.0
    ours = kernels.aggregate(terms, np.full(16, -0.0, np.float32), "B", [0])[0]
    assert ours[:4].tolist() == [1, 1 + 2.0**-6, 0, -1]
    assert not np.signbit(ours[2])


finite = st.integers(0, 2**32 - 1).filter(lambda bits: 1 <= (bits >> 23) & 0xFF <= 0xF0 or bits & 0x7FFFFFFF < 1 << 23)


@settings(deadline=None, max_examples=60)
@given(
    bits=st.lists(finite, min_size=96, max_size=96),
    shared=st.lists(finite, min_size=16, max_size=16),
    scheme=st.sampled_from(SCHEMES),
    rank=st.integers(0, 719),
)
def test_any_finite_bits_follow_the_recurrence(bits: list[int], shared: list[int], scheme: str, rank: int) -> None:
    """Subnormal terms included, which no flush to zero may touch."""
    terms = np.array(bits, np.uint32).view(np.float32).reshape(6, 16)
    merged = round_bf16(np.array(shared, np.uint32).view(np.float32))
    expected = reduced(terms, merged, scheme, ORDERS[rank])
    assert kernels.aggregate(terms, merged, scheme, [rank])[0].tobytes() == expected.tobytes()

"""The four schemes and the native order against study 2.5 written in numpy, in bits, on terms of the embedded checkpoint."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import kernels

F32 = npt.NDArray[np.float32]
PROMPT = (5, 91, 268, 6550, 47, 1399)


def r_bf16(values: F32) -> F32:
    """Study 2.2.3: add 0x7fff and the lowest retained bit, clear the low 16 bits; finite values."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def reduced(terms: F32, shared: F32, scheme: str, order: Sequence[int]) -> F32:
    """Study 2.5: y = R(a_6 + s)."""
    accumulator = np.zeros_like(shared)
    for place in order:
        term = r_bf16(terms[place]) if scheme in ("C", "B") else terms[place]
        accumulator = accumulator + term
        if scheme in ("A", "B"):
            accumulator = r_bf16(accumulator)
    return r_bf16(accumulator + shared)


@pytest.fixture(scope="module")
def captures(decoder: kernels.Decoder) -> dict[str, npt.NDArray[np.generic]]:
    vocabulary = decoder.checkpoint.config.vocab_size
    tokens = [token % vocabulary for token in PROMPT]
    wanted = kernels.Intervention(capture=["route", "moe_terms", "moe_shared", "moe_output"])
    (result,) = decoder.step([kernels.Row(decoder.new_state(), tokens, wanted)])
    return result.captures


@pytest.mark.parametrize("scheme", ["P32", "C", "A", "B"])
def test_a_scheme_adds_as_the_study_says_in_every_order(captures: dict[str, F32], scheme: str) -> None:
    terms, layers = captures["moe_terms"], captures["moe_terms"].shape[1]
    k = terms.shape[2]
    orders = list(itertools.permutations(range(k)))  # in lexicographic order, so that places are ranks
    assert len(orders) == math.factorial(k)
    for layer in range(0, layers, 3):
        terms, shared = captures["moe_terms"][-1, layer], captures["moe_shared"][-1, layer]
        found = kernels.aggregate(terms, shared, scheme, range(len(orders)))
        expected = np.stack([reduced(terms, shared, scheme, order) for order in orders])
        assert found.tobytes() == expected.tobytes(), f"layer {layer}"


def test_native_adds_bf16_terms_in_ascending_expert_id(captures: dict[str, npt.NDArray[np.generic]]) -> None:
    positions, layers = captures["route"].shape[:2]
    for position, layer in itertools.product(range(positions), range(layers)):
        terms, shared, experts, output = (
            captures[name][position, layer] for name in ("moe_terms", "moe_shared", "route", "moe_output")
        )
        assert output.tobytes() == reduced(terms, shared, "C", np.argsort(experts).tolist()).tobytes()


def test_terms_are_captured_before_they_are_rounded(captures: dict[str, F32]) -> None:
    """Else P32 and C, or A and B, would be one scheme."""
    terms = captures["moe_terms"]
    assert np.mean(r_bf16(terms) != terms) > 0.5

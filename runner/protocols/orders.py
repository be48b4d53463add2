"""Orders by rank, and schedules: one order a MoE layer, drawn from names alone (study 2.4.5; docs/formats.md, "Schedules")."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

GENERATOR = "sha256-counter-1"
"""Name of the generator; it enters the key of every unit that draws, so another generator can never pass for this one."""

IDENTITY = 0
"""Rank of the order that leaves the router's order alone."""


def draw_schedule(
    experiment_seed: int, prompt_id: str, request_seed: int, layers: int, experts_per_token: int
) -> tuple[int, ...]:
    """An order, uniform over the experts_per_token! ranks, for each of `layers` layers, independent of each other.

    It depends on its arguments and nothing else; the scheme is none of them, so that schemes are paired.
    """
    return tuple(
        _draw(experiment_seed, prompt_id, request_seed, layer, math.factorial(experts_per_token)) for layer in range(layers)
    )


def _draw(experiment_seed: int, prompt_id: str, request_seed: int, layer: int, orders: int) -> int:
    """A rank below `orders`: the first 8 bytes of a SHA-256, refused where the remainder would favour the lower ranks."""
    fair = (1 << 64) // orders * orders
    counter = 0
    while True:
        name = f"{GENERATOR}\n{experiment_seed}\n{prompt_id}\n{request_seed}\n{layer}\n{counter}\n"
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        if number < fair:
            return number % orders
        counter += 1


def rank(permutation: Sequence[int]) -> int:
    """Lexicographic rank of a permutation of 0..k-1: the inverse of kernels.permutation."""
    k = len(permutation)
    smaller = (sum(later < one for later in permutation[place + 1 :]) for place, one in enumerate(permutation))
    return sum(count * math.factorial(k - 1 - place) for place, count in enumerate(smaller))


def native_order(experts: Sequence[int]) -> int:
    """The order that adds router-ordered terms in ascending expert id, as the native path does (design, "Numerics contract")."""
    return rank(sorted(range(len(experts)), key=lambda place: experts[place]))

"""One fuzz case: what rows there are, where each begins, and what it is fed and changed in each round. All of it follows from a
seed, so that two processes play the same case and a failing one can be played again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import factorial

from fuzz_models import Model

import kernels

SCHEMES = ("native", "P32", "C", "A", "B")


@dataclass(frozen=True)
class Change:
    """A row's intervention as data. post_mhc: (layer, seed) of a random post-mHC delta, for one token only."""

    aggregation: dict[int, tuple[kernels._kernels.Scheme, int]]
    routes: dict[int, tuple[int, ...]]
    captures: tuple[str, ...]
    capture_layers: tuple[int, ...] | None
    post_mhc: tuple[int, int] | None


NATIVE = Change({}, {}, (), None, None)


@dataclass(frozen=True)
class Turn:
    """A row's part in one round. copied: it goes on from its serialised state. state_delta: seed of a delta that is added after
    the step.
    """

    row: int
    tokens: tuple[int, ...]
    change: Change
    copied: bool
    state_delta: int | None


@dataclass(frozen=True)
class Start:
    """Where a row begins: at a prompt (length, seed), which is fed `chunk` tokens at a time; or as the fork of an earlier row in
    the round in which it first stands.
    """

    prompt: tuple[int, int]
    chunk: int
    parent: int | None


@dataclass(frozen=True)
class Case:
    seed: int
    numerics: kernels._kernels.Numerics
    threads: int
    starts: tuple[Start, ...]
    rounds: tuple[tuple[Turn, ...], ...]


def draw_case(seed: int, model: Model, largest: int) -> Case:
    """`largest`: the most rows a case may have; most have few."""
    draw = random.Random(f"case {seed}")
    count = draw.choice((1, 2, 3, 4, 5, 7, 8, 9, draw.randint(10, max(10, largest))))
    count = min(count, largest)
    starts = []
    for row in range(count):
        length = draw.choice(model.lengths)
        parent = draw.randrange(row) if row and draw.random() < 0.4 else None
        starts.append(Start((length, draw.randint(0, 1)), draw.choice((1, 2, 3, 7, length, length)), parent))
    rounds = []
    for number in range(draw.randint(1, 3)):
        rows = draw.sample(range(count), count if number == 0 else draw.randint(1, count))
        # rows of equal tokens and changes are what a step computes once
        said = [_tokens(draw, model.config) for _ in range(draw.choice((1, 2, len(rows))))]
        changes = [_change(draw, model.config) for _ in range(draw.choice((1, 2, len(rows))))]
        rounds.append(tuple(_turn(draw, row, draw.choice(said), draw.choice(changes)) for row in rows))
    threads = draw.choice((1, 1, 2, 2, 3, 4))
    return Case(seed, draw.choice(("official", "official", "fp32")), threads, tuple(starts), tuple(rounds))


def _turn(draw: random.Random, row: int, tokens: tuple[int, ...], change: Change) -> Turn:
    if draw.random() < 0.3:
        change = NATIVE
    elif len(tokens) > 1:
        change = replace(change, post_mhc=None)
    return Turn(row, tokens, change, draw.random() < 0.1, draw.getrandbits(32) if draw.random() < 0.1 else None)


def _tokens(draw: random.Random, config: kernels.Config) -> tuple[int, ...]:
    return tuple(draw.randrange(config.vocab_size) for _ in range(draw.choice((1, 1, 1, 1, 2, 3, 5))))


def _change(draw: random.Random, config: kernels.Config) -> Change:
    layers = range(config.num_hidden_layers)
    k = config.num_experts_per_tok

    def some(most: int) -> list[int]:
        return draw.sample(layers, draw.randint(0, min(most, len(layers))))

    aggregation: dict[int, tuple[kernels._kernels.Scheme, int]] = {}
    for layer in some(4):
        scheme = draw.choice(SCHEMES)
        aggregation[layer] = (scheme, 0 if scheme == "native" else draw.randrange(factorial(k)))
    routes = {layer: tuple(draw.sample(range(config.n_routed_experts), k)) for layer in some(2)} if draw.random() < 0.3 else {}
    names = sorted(kernels.CAPTURES)
    captures = names if draw.random() < 0.5 else draw.sample(names, draw.randint(0, 4))
    capture_layers = tuple(sorted(some(3))) or None
    post_mhc = (draw.choice(layers), draw.getrandbits(32)) if draw.random() < 0.3 else None
    return Change(aggregation, routes, tuple(captures), capture_layers, post_mhc)

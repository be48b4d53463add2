"""What every decoder is timed on, ours and the peers': the same prompts, then one greedy token a step for every row."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

PROMPT_LENGTH = 32

STEPS = {1: 48, 8: 32, 64: 16}
"""Rows -> timed decode steps of one repetition."""

VOCABULARY = 8192


def prompts(rows: int) -> list[list[int]]:
    """A prompt of pseudo-random token IDs for each row, by SHA-256: the same with every library version."""
    return [[_draw(f"{row}:{place}") for place in range(PROMPT_LENGTH)] for row in range(rows)]


def _draw(text: str) -> int:
    return 2 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") % (VOCABULARY - 2)


def timing_options(description: str | None) -> argparse.ArgumentParser:
    """What every program that times a decoder is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rows", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--repetitions", type=int, default=5)
    return parser


class Rows(Protocol):
    """New sequences that advance together in one decoder."""

    def feed(self, tokens: Sequence[Sequence[int]]) -> list[int]:
        """Feed each row its tokens, as many for each; the argmax after each row's last."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Timing:
    """One decoder at one number of rows. rows_per_second: a value a repetition. tokens: the first row's greedy continuation."""

    rows: int
    threads: int
    rows_per_second: list[float]
    tokens: list[int]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def time_decoder(make: Callable[[], Rows], rows: int, threads: int, repetitions: int, steps: int | None = None) -> Timing:
    """Time decode steps, STEPS[rows] of them unless `steps` says otherwise; the prompt and the first step are not timed."""
    count = steps or STEPS[rows]
    rates: list[float] = []
    tokens: list[int] = []
    for _ in range(repetitions):
        decoder = make()
        current = decoder.feed(prompts(rows))
        tokens = [current[0]]
        begin = 0.0
        for step in range(1 + count):
            if step == 1:
                begin = time.perf_counter()
            current = decoder.feed([[token] for token in current])
            tokens.append(current[0])
        rates.append(rows * count / (time.perf_counter() - begin))
        decoder.close()
    return Timing(rows, threads, rates, tokens)

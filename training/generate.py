"""Greedy continuations and the measure of loops in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from training.model import INFERENCE, Decoder, Mode


@torch.no_grad()
def greedy(
    model: Decoder, prompts: Sequence[Sequence[int]], count: int, mode: Mode = INFERENCE, batch: int = 64
) -> list[list[int]]:
    """`count` greedy tokens for every prompt (argmax, lowest id on a tie).

    The whole prefix is run again for every token: slow, but the training forward itself is what is sampled.
    """
    device, unit = model.embed.device, model.g.window
    results: list[list[int]] = []
    for first in range(0, len(prompts), batch):
        rows = [list(prompt) for prompt in prompts[first : first + batch]]
        length = -(-(max(map(len, rows)) + count) // unit) * unit
        ids = torch.zeros(len(rows), length, dtype=torch.long, device=device)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        at = torch.tensor([len(row) for row in rows], device=device)
        each = torch.arange(len(rows), device=device)
        for _ in range(count):
            need = -(-int(at.max()) // unit) * unit
            hidden = model(ids[:, :need], mode).hidden[each, at - 1]
            ids[each, at] = model.logits(hidden).argmax(-1)
            at = at + 1
        results += [ids[i, len(row) : len(row) + count].tolist() for i, row in enumerate(rows)]
    return results


def loops(tokens: Sequence[int], size: int = 8, times: int = 3) -> bool:
    """True if some n-gram of `size` tokens stands at least `times` times."""
    grams = Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    return bool(grams) and max(grams.values()) >= times

"""Training batches: shuffled windows over the token streams, and pseudo-repetitive rows against loops."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

REPEATS = {"main_en": 2, "main_zh": 2, "extra_en": 1, "extra_zh": 1}  # passes over a stream in one epoch


def _tiled(tokens: np.ndarray, length: int, device: torch.device) -> Tensor:
    """int64 [256, length+1]: windows spread evenly over a short stream, overlapping where it is too short."""
    starts = np.linspace(0, len(tokens) - length - 1, 256).astype(np.int64)
    return torch.from_numpy(tokens.astype(np.int64)[starts[:, None] + np.arange(length + 1)]).to(device)


class Windows:
    """Draws windows of length+1 tokens without replacement; every epoch cuts each stream at new offsets."""

    def __init__(self, path: Path, length: int, device: torch.device, seed: int) -> None:
        with np.load(path) as arrays:
            streams = {name: arrays[name] for name in REPEATS}
            self.heldout = {language: _tiled(arrays["heldout_" + language], length, device) for language in ("en", "zh")}
        self.tokens = torch.from_numpy(np.concatenate(list(streams.values())).astype(np.int32)).to(device)
        self.length, self._sizes, self._draw = length, {n: len(s) for n, s in streams.items()}, np.random.default_rng(seed)
        self._queue = np.zeros(0, dtype=np.int64)
        self.epochs = 0.0

    def _epoch(self) -> np.ndarray:
        starts, base = [], 0
        for name, size in self._sizes.items():
            for _ in range(REPEATS[name]):
                starts.append(base + np.arange(self._draw.integers(self.length), size - self.length - 1, self.length))
            base += size
        return self._draw.permutation(np.concatenate(starts))

    def next(self, count: int) -> Tensor:
        """int64 [count, length+1]."""
        while len(self._queue) < count:
            fresh = self._epoch()
            self._per_epoch = len(fresh)
            self._queue = np.concatenate([self._queue, fresh])
        take, self._queue = self._queue[:count], self._queue[count:]
        self.epochs += count / self._per_epoch
        start = torch.from_numpy(take).to(self.tokens.device, non_blocking=True)
        return self.tokens[start[:, None] + torch.arange(self.length + 1, device=start.device)].long()


class Loops(NamedTuple):
    """rows int64 [R, length+1]; `lag` [R,1] is the period; `counted` bool [R,length] marks the repeated targets."""

    rows: Tensor
    lag: Tensor
    counted: Tensor


def make_loops(rows: Tensor, draw: torch.Generator) -> Loops:
    """Cuts each row after a random prefix and repeats the prefix's last tokens until the end (pseudo-repetition).

    What the model should learn from such a row is the opposite of copying: see `loop_loss`.
    """
    count, size = rows.shape
    lag = torch.randint(2, 40, (count, 1), generator=draw, device=rows.device)
    prefix = lag + torch.randint(8, 72, (count, 1), generator=draw, device=rows.device)
    at = torch.arange(size, device=rows.device)[None]
    source = torch.where(at < prefix, at, prefix - lag + (at - prefix) % lag)
    counted = (at >= prefix) & (at < prefix + 8 * lag)
    return Loops(rows.gather(1, source), lag, counted[:, 1:])


def loop_loss(log_prob: Tensor, loops: Loops, decay: float = 0.5) -> Tensor:
    """Makes the probability of a repeated token fall by `decay` from one repetition to the next (DITTO's loss).

    log_prob: FP32 [R,length] of the targets. -log(1 - |p - decay * p_one_period_before|), the latter without gradient.
    """
    p = log_prob.exp()
    before = (torch.arange(p.shape[1], device=p.device)[None] - loops.lag).clamp_min(0)
    gap = (p - decay * p.detach().gather(1, before)).abs()
    return -(torch.log1p(-gap.clamp(max=1 - 1e-4)) * loops.counted).sum() / loops.counted.sum()

"""Training batches: shuffled windows over the token streams."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.tokenizer import END, NEWLINE

STREAMS = ("main_en", "main_zh", "extra_en", "extra_zh")
SNAP = 128


def _tiled(tokens: np.ndarray, length: int, device: torch.device) -> Tensor:
    """int64 [256, length+1]: windows spread evenly over a short stream, overlapping where it is too short."""
    starts = np.linspace(0, len(tokens) - length - 1, 256).astype(np.int64)
    return torch.from_numpy(tokens.astype(np.int64)[starts[:, None] + np.arange(length + 1)]).to(device)


class Windows:
    """Draws windows of length+1 tokens without replacement; every epoch cuts each stream at new offsets.

    A window whose cut lies less than SNAP tokens past an end mark begins with that mark: text that is measured or
    prompted stands alone after an end mark, which a window cut anywhere hardly ever shows.

    Attributes:
        passes: how often one epoch reads each of STREAMS; of a fractional pass, that share of the windows is drawn.
        epochs: epochs drawn so far.
        openings: int64 [n], where paragraphs and documents of the narrative streams begin, but for the last few.
    """

    def __init__(self, path: Path, length: int, device: torch.device, seed: int, passes: tuple[float, ...]) -> None:
        with np.load(path) as arrays:
            streams = [arrays[name] for name in STREAMS]
            self.heldout = {language: _tiled(arrays["heldout_" + language], length, device) for language in ("en", "zh")}
        tokens = np.concatenate(streams)
        self._ends = np.union1d(0, np.flatnonzero(tokens == END))  # with the start of all
        self.tokens = torch.from_numpy(tokens.astype(np.int32)).to(device)
        narrative = tokens[: len(streams[0]) + len(streams[1])][:-SNAP]
        self.openings = torch.from_numpy(np.union1d(0, np.flatnonzero((narrative == END) | (narrative == NEWLINE)) + 1)).to(
            device
        )
        self.length, self._sizes, self._draw = length, [len(s) for s in streams], np.random.default_rng(seed)
        self.passes, self.epochs = passes, 0.0
        self._queue, self._per_epoch = np.zeros(0, dtype=np.int64), 1

    def remix(self, passes: tuple[float, ...]) -> None:
        """Goes on with other passes; what is left of the running epoch is dropped."""
        self.passes, self._queue = passes, np.zeros(0, dtype=np.int64)

    def _epoch(self) -> np.ndarray:
        starts, base = [], 0
        for size, passes in zip(self._sizes, self.passes, strict=True):
            for done in range(math.ceil(passes)):
                part = min(1.0, passes - done)
                cut = base + np.arange(self._draw.integers(self.length), size - self.length - 1, self.length)
                starts.append(cut if part == 1 else self._draw.permutation(cut)[: round(part * len(cut))])
            base += size
        return self._snap(self._draw.permutation(np.concatenate(starts)))

    def _snap(self, starts: np.ndarray) -> np.ndarray:
        """Each start moved to the end mark before it, if that is near."""
        ends = self._ends[np.searchsorted(self._ends, starts, side="right") - 1]
        return np.where(starts - ends < SNAP, ends, starts)

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

    def state(self) -> tuple:
        return self.passes, self._queue, self._per_epoch, self.epochs, self._draw.bit_generator.state

    def restore(self, state: tuple) -> None:
        self.passes, self._queue, self._per_epoch, self.epochs, self._draw.bit_generator.state = state

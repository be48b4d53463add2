"""The persistent state of one sequence in the numpy decoder and its canonical order (reference sections 8 and 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.formats import F32, F64
from oracle.geometry import Geometry


@dataclass
class CompressorState:
    """Partial window of one compressor of width w = d, or 2d with overlap."""

    kv: F64  # [c*r, w], zero where never written
    score: F64  # [c*r, w], -inf where never written

    @staticmethod
    def empty(dim: int, ratio: int) -> CompressorState:
        copies = 2 if ratio == 4 else 1
        shape = (copies * ratio, copies * dim)
        return CompressorState(np.zeros(shape), np.full(shape, -np.inf))


@dataclass
class LayerState:
    """One layer; what its ratio does not need stays empty."""

    window: F64  # [sliding_window, hd], position p in slot p mod sliding_window
    rows: F64  # [n, hd]
    main: CompressorState | None
    index_rows: F64  # [n, index_head_dim]
    index: CompressorState | None

    def parts(self) -> list[F64]:
        """Arrays in canonical order: window, rows, kv, score, index rows, index kv, index score."""
        parts = [self.window]
        if self.main is not None:
            parts += [self.rows, self.main.kv, self.main.score]
        if self.index is not None:
            parts += [self.index_rows, self.index.kv, self.index.score]
        return parts


class SequenceState:
    """All layers of one sequence."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.position = 0
        g = geometry
        self.layers = [
            LayerState(
                np.zeros((g.sliding_window, g.head_dim)),
                np.zeros((0, g.head_dim)),
                CompressorState.empty(g.head_dim, ratio) if ratio else None,
                np.zeros((0, g.index_head_dim)),
                CompressorState.empty(g.index_head_dim, 4) if ratio == 4 else None,
            )
            for ratio in g.compress_ratios
        ]

    def values(self) -> F32:
        """Canonical values, layer after layer."""
        return np.concatenate([part.ravel() for layer in self.layers for part in layer.parts()]).astype(np.float32)

    @staticmethod
    def of_values(geometry: Geometry, values: F32, position: int) -> SequenceState:
        """Inverse of values() for a state that has seen `position` tokens."""
        state = SequenceState(geometry)
        state.position = position
        for layer, ratio in zip(state.layers, geometry.compress_ratios, strict=True):
            if ratio:
                layer.rows = np.zeros((position // ratio, geometry.head_dim))
            if ratio == 4:
                layer.index_rows = np.zeros((position // 4, geometry.index_head_dim))
        start = 0
        for layer in state.layers:
            for part in layer.parts():
                part[...] = values[start : start + part.size].reshape(part.shape)
                start += part.size
        if start != values.size:
            raise ValueError(f"{values.size} values for a state of {start}")
        return state


def value_count(geometry: Geometry, position: int) -> int:
    """Values in the state after `position` has been processed, by the formula of reference section 11."""
    g = geometry
    count = 0
    for ratio in g.compress_ratios:
        count += g.sliding_window * g.head_dim
        if ratio:
            copies = 2 if ratio == 4 else 1
            count += (position + 1) // ratio * g.head_dim + 2 * copies * ratio * copies * g.head_dim
        if ratio == 4:
            count += (position + 1) // 4 * g.index_head_dim + 2 * 8 * 2 * g.index_head_dim
    return count

"""Sizes that follow from a checkpoint's geometry: of a post-mHC state (study 2.4.2) and of the persistent state (study 2.4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import kernels

INDEXED = 4
"""The compression ratio whose layers have an indexer, and whose windows overlap."""


@dataclass(frozen=True)
class Geometry:
    """What the sizes depend on. ratios: compression ratio of each layer, 0 for none."""

    hidden_size: int
    streams: int
    window: int
    head_dim: int
    index_head_dim: int
    experts_per_token: int
    ratios: tuple[int, ...]

    @classmethod
    def of(cls, config: kernels.Config) -> Geometry:
        return cls(
            hidden_size=config.hidden_size,
            streams=config.hc_mult,
            window=config.sliding_window,
            head_dim=config.head_dim,
            index_head_dim=config.index_head_dim,
            experts_per_token=config.num_experts_per_tok,
            ratios=tuple(config.compress_ratios),
        )

    @property
    def layers(self) -> int:
        return len(self.ratios)

    @property
    def post_mhc_values(self) -> int:
        """FP32 values of one post-mHC state."""
        return self.streams * self.hidden_size

    def state_values(self, position: int) -> int:
        """FP32 values of the persistent state after `position`, counted from 0, has passed all layers.

        A layer has its window KV; with compression also a row for each full window of tokens, and the compressor's two states;
        where it is indexed, the same again for the indexer's keys.
        """
        return sum(self._layer_values(ratio, position + 1) for ratio in self.ratios)

    def _layer_values(self, ratio: int, tokens: int) -> int:
        window = self.window * self.head_dim
        if ratio == 0:
            return window
        if ratio == INDEXED:
            return window + self._compressed(ratio, tokens, self.head_dim) + self._compressed(ratio, tokens, self.index_head_dim)
        return window + self._compressed(ratio, tokens, self.head_dim)

    def _compressed(self, ratio: int, tokens: int, width: int) -> int:
        """Rows of full windows, and two states; overlapping windows double a state's rows and their width."""
        overlap = 2 if ratio == INDEXED else 1
        return tokens // ratio * width + 2 * (overlap * ratio) * (overlap * width)

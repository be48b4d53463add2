"""Attention of the numpy decoder: projections, compressors, indexer, sink softmax (reference sections 6 to 9)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import numpy.typing as npt

from oracle.checkpoint_files import Weights
from oracle.formats import F64, FP8_BLOCK, KV_BLOCK, hadamard, through_fp4, through_fp8
from oracle.geometry import Geometry
from oracle.rounding import Rounding
from oracle.step_state import CompressorState, LayerState

KEY_BLOCK = 64
"""Keys that share one running maximum in the official kernel."""


def rope_frequencies(geometry: Geometry, compressed: bool) -> F64:
    """Angle per position of each pair [rd/2] (reference section 6); YaRN only where the layer compresses."""
    size = geometry.qk_rope_head_dim
    base = geometry.compress_rope_theta if compressed else geometry.rope_theta
    plain: F64 = base ** (-np.arange(0, size, 2) / size)
    if not compressed or geometry.yarn_original_length == 0:
        return plain

    def pair_of(rotations: float) -> float:
        return size * math.log(geometry.yarn_original_length / (2 * math.pi * rotations)) / (2 * math.log(base))

    low = max(math.floor(pair_of(32)), 0)
    high = min(math.ceil(pair_of(1)), size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / (high - low if high != low else 0.001), 0, 1)
    return plain / geometry.yarn_factor * ramp + plain * (1 - ramp)


class StepAttention:
    """Attention of every layer for one token at a time. Vectors are float64; in the official path they hold BF16 values."""

    def __init__(self, geometry: Geometry, weights: Weights, rounding: Rounding, pad_window: bool) -> None:
        self.geometry = geometry
        self.weights = weights
        self.round = rounding
        self.official = rounding.official
        self.pad_window = pad_window
        self._frequencies = {compressed: rope_frequencies(geometry, compressed) for compressed in (False, True)}

    def product(self, name: str, x: F64) -> F64:
        """W x, W [out,in], x [in] -> [out], not rounded. The official path sends x through FP8 where W is FP8 or FP4."""
        if self.official and self.weights.quantised(f"{name}.weight"):
            x = through_fp8(x, FP8_BLOCK)
        return self.weights[f"{name}.weight"] @ x

    def linear(self, name: str, x: F64) -> F64:
        return self.round(self.product(name, x), name, lambda: np.abs(self.weights[f"{name}.weight"]) @ np.abs(x))

    def rms(self, x: F64, name: str) -> F64:
        """Weighted RMS norm of [n]."""
        scale = np.sqrt(np.mean(x * x) + self.geometry.rms_norm_eps)
        return self.round(self.weights[f"{name}.weight"] * (x / scale), name)

    def rope(self, x: F64, position: int, compressed: bool, point: str, *, inverse: bool = False) -> F64:
        """Rotate the last qk_rope_head_dim dims of [..., n]; pairs are adjacent. Official angles, sines and cosines are FP32."""
        angles = position * self._frequencies[compressed]
        if self.official:
            angles = (np.float32(position) * self._frequencies[compressed].astype(np.float32)).astype(np.float64)
        cosine, sine = np.cos(angles), np.sin(angles)
        if self.official:
            cosine, sine = cosine.astype(np.float32).astype(np.float64), sine.astype(np.float32).astype(np.float64)
        if inverse:
            sine = -sine
        pairs = x[..., -self.geometry.qk_rope_head_dim :].reshape(*x.shape[:-1], -1, 2)
        even, odd = pairs[..., 0], pairs[..., 1]
        turned = np.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
        result = x.copy()
        rotated = result[..., -self.geometry.qk_rope_head_dim :]
        rotated[...] = self.round(turned.reshape(rotated.shape), point, lambda: np.repeat(np.hypot(even, odd), 2, -1))
        return result

    def simulate_kv_cache(self, row: F64, point: str) -> F64:
        """Send the dims without rope of a key row [hd] through FP8 in blocks of 64."""
        if not self.official:
            return row
        plain = row.size - self.geometry.qk_rope_head_dim
        return np.concatenate([self.round(through_fp8(row[:plain], KV_BLOCK), point), row[plain:]])

    def simulate_index_cache(self, x: F64, point: str) -> F64:
        """Hadamard and FP4 of index queries or rows [..., index_head_dim]."""
        if not self.official:
            return x
        return self.round(through_fp4(self.round(hadamard(x), f"{point}.hadamard")), point)

    def compress(self, prefix: str, x: F64, state: CompressorState, position: int, ratio: int, *, index: bool) -> F64 | None:
        """Feed one token to a compressor; the row [d] that its window finished, if it did (section 8)."""
        overlap = ratio == 4
        slot = position % ratio
        row = slot + ratio if overlap else slot
        state.kv[row] = self.weights[f"{prefix}.wkv.weight"] @ x
        state.score[row] = self.weights[f"{prefix}.wgate.weight"] @ x + self.weights[f"{prefix}.ape"][slot]
        if (position + 1) % ratio:
            return None
        values, scores = self.window_candidates(state, ratio)
        weight = np.exp(scores - scores.max(0))
        share = weight / weight.sum(0)
        pooled = self.round((values * weight).sum(0) / weight.sum(0), f"{prefix}.pool", lambda: (np.abs(values) * share).sum(0))
        if overlap:
            state.kv[:ratio] = state.kv[ratio:]
            state.score[:ratio] = state.score[ratio:]
        first = position + 1 - ratio
        turned = self.rope(self.rms(pooled, f"{prefix}.norm"), first, True, f"{prefix}.rope")
        return self.simulate_index_cache(turned, f"{prefix}.row") if index else self.simulate_kv_cache(turned, f"{prefix}.row")

    def window_candidates(self, state: CompressorState, ratio: int) -> tuple[F64, F64]:
        """What a closing window pools, [n,d] twice: with overlap, columns A of the previous window and B of this one."""
        if ratio != 4:
            return state.kv, state.score
        dim = state.kv.shape[1] // 2

        def both(part: F64) -> F64:
            return np.concatenate([part[:ratio, :dim], part[ratio:, dim:]])

        return both(state.kv), both(state.score)

    def index(self, prefix: str, x: F64, latent: F64, rows: F64, position: int) -> F64:
        """Index scores [n] of n rows (section 9)."""
        g = self.geometry
        query = self.linear(f"{prefix}.wq_b", latent).reshape(g.index_n_heads, g.index_head_dim)
        query = self.simulate_index_cache(self.rope(query, position, True, f"{prefix}.rope"), f"{prefix}.query")
        scale = g.index_head_dim**-0.5 * g.index_n_heads**-0.5
        weight = self.round(self.linear(f"{prefix}.weights_proj", x) * scale, f"{prefix}.weight")
        dots = np.maximum(self.round(query @ rows.T, f"{prefix}.dot", lambda: np.abs(query) @ np.abs(rows.T)), 0)
        products = self.round(dots * weight[:, None], f"{prefix}.product")
        return self.round(products.sum(0), f"{prefix}.score", lambda: np.abs(products).sum(0))

    def softmax_read(self, query: F64, keys: F64, window_keys: int, sink: F64, point: str) -> F64:
        """Attention of query [H,hd] over keys [n,hd] with a sink [H] (section 7); the first `window_keys` keys are the window's.

        The official kernel walks its key list in blocks of 64, and the list gives the window its full length from the start:
        unwritten slots hold no key but count, so the first compressed row always stands at index `sliding_window`. With
        pad_window off, keys are counted without those gaps.
        """
        scores = query @ keys.T / math.sqrt(self.geometry.head_dim)
        if not self.official:
            largest = np.maximum(scores.max(1), sink)
            weight = np.exp(scores - largest[:, None])
            return weight @ keys / (weight.sum(1) + np.exp(sink - largest))[:, None]
        magnitude = np.abs(query) @ np.abs(keys.T) / math.sqrt(self.geometry.head_dim)
        place = np.arange(len(keys))
        if self.pad_window:
            place[window_keys:] += self.geometry.sliding_window - window_keys
        largest = np.full(len(query), -np.inf)
        total = np.zeros(len(query))
        read = np.zeros_like(query)
        for block in np.unique(place // KEY_BLOCK):
            members = place // KEY_BLOCK == block
            higher = np.maximum(largest, scores[:, members].max(1))
            shrink = np.exp(largest - higher)
            weight = np.exp(scores[:, members] - higher[:, None])
            total = total * shrink + weight.sum(1)
            rounded = self.round(weight, f"{point}.weight{block}", partial(np.multiply, weight, 1 + magnitude[:, members]))
            read = read * shrink[:, None] + rounded @ keys[members]
            largest = higher
        total += np.exp(sink - largest)
        return self.round(read / total[:, None], point, lambda: np.exp(scores - largest[:, None]) @ np.abs(keys) / total[:, None])

    def normalise_heads(self, query: F64, point: str) -> F64:
        """Unweighted RMS norm of each head [H,hd]; five roundings in the official path."""
        eps = self.geometry.rms_norm_eps
        if not self.official:
            return query / np.sqrt(np.mean(query * query, 1, keepdims=True) + eps)
        mean = self.round(np.mean(self.round(query * query, f"{point}.square"), 1, keepdims=True), f"{point}.mean")
        inverse = self.round(1 / np.sqrt(self.round(mean + eps, f"{point}.eps")), f"{point}.rsqrt")
        return self.round(query * inverse, point)

    def select(self, scores: F64) -> tuple[npt.NDArray[np.int64], float]:
        """Rows to read, best first, ties to the lower row, and the score gap at the cut (inf without a cut)."""
        order = np.argsort(-scores, kind="stable")
        cut = self.geometry.index_topk
        gap = float(scores[order[cut - 1]] - scores[order[cut]]) if len(order) > cut else np.inf
        return order[:cut], gap

    def __call__(self, layer: int, x: F64, state: LayerState, position: int) -> tuple[F64, npt.NDArray[np.int64], float]:
        """Attention output [D], the compressed rows read by an indexer in score order (else none), and the index margin."""
        g = self.geometry
        prefix = f"layers.{layer}.attn"
        ratio = g.compress_ratios[layer]
        compressed = ratio != 0
        latent = self.rms(self.linear(f"{prefix}.wq_a", x), f"{prefix}.q_norm")
        query = self.linear(f"{prefix}.wq_b", latent).reshape(g.num_attention_heads, g.head_dim)
        query = self.rope(self.normalise_heads(query, f"{prefix}.head_norm"), position, compressed, f"{prefix}.q_rope")
        row = self.rms(self.linear(f"{prefix}.wkv", x), f"{prefix}.kv_norm")
        row = self.simulate_kv_cache(self.rope(row, position, compressed, f"{prefix}.kv_rope"), f"{prefix}.kv")
        state.window[position % g.sliding_window] = row
        oldest = max(0, position + 1 - g.sliding_window)
        keys = [state.window[np.arange(oldest, position + 1) % g.sliding_window]]
        chosen, margin = np.zeros(0, np.int64), np.inf
        if state.main is not None:
            finished = self.compress(f"{prefix}.compressor", x, state.main, position, ratio, index=False)
            if finished is not None:
                state.rows = np.vstack([state.rows, finished])
        if state.index is not None:
            indexer = f"{prefix}.indexer"
            finished = self.compress(f"{indexer}.compressor", x, state.index, position, ratio, index=True)
            if finished is not None:
                state.index_rows = np.vstack([state.index_rows, finished])
            if len(state.index_rows):
                chosen, margin = self.select(self.index(indexer, x, latent, state.index_rows, position))
            keys.append(state.rows[chosen])
        else:
            keys.append(state.rows)
        read = self.softmax_read(query, np.concatenate(keys), len(keys[0]), self.weights[f"{prefix}.attn_sink"], f"{prefix}.read")
        read = self.rope(read, position, compressed, f"{prefix}.read_rope", inverse=True)
        groups = self.weights[f"{prefix}.wo_a.weight"].reshape(g.o_groups, g.o_lora_rank, -1)
        read = read.reshape(g.o_groups, -1)
        mixed = np.einsum("gd,grd->gr", read, groups)
        mixed = self.round(mixed, f"{prefix}.wo_a", lambda: np.einsum("gd,grd->gr", np.abs(read), np.abs(groups)))
        return self.linear(f"{prefix}.wo_b", mixed.reshape(-1)), chosen, margin

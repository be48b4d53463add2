"""Random checkpoints under the official tensor names, drawn with numpy alone.

Each tensor has a generator of its own, seeded by (seed, CRC-32 of a key), so a tensor's values depend on neither the order of
drawing nor the other tensors' sizes. Gains are chosen so that streams, router scores and logits spread: a flat model would let a
wrong decoder pass.
"""

from __future__ import annotations

import zlib
from typing import Literal

import numpy as np
import numpy.typing as npt

from oracle.checkpoint_files import Stored, Tensors
from oracle.formats import F64, FP4_BLOCK, FP8_BLOCK, bf16_bits, quantise_fp4, quantise_fp8, round_bf16
from oracle.geometry import Dtype, Geometry

Kind = Literal["fp8", "fp4", "bf16"]


def random_tensors(geometry: Geometry, dtype: Dtype, seed: int) -> Tensors:
    """All tensors of one checkpoint, a decoy mtp.0 block included, which a loader must skip.

    dtype: "fp4fp8" stores the official tags, "bf16" keeps them but for the quantised matrices, which it stores in BF16, and
    "float32" stores every float as F32.
    """
    draw = _Draw(dtype, seed)
    g = geometry
    draw.vector("embed.weight", draw.normal("embed", g.vocab_size, g.hidden_size), "BF16")
    draw.matrix("head", g.vocab_size, g.hidden_size, "bf16", gain=3.0)
    draw.norm("norm.weight", g.hidden_size)
    streams = g.hc_mult * g.hidden_size
    draw.vector("hc_head_fn", draw.normal("hhf", g.hc_mult, streams) / np.sqrt(streams))
    draw.vector("hc_head_base", 0.5 * draw.normal("hhb", g.hc_mult))
    draw.vector("hc_head_scale", np.array([1.1]))
    for layer, ratio in enumerate(g.compress_ratios):
        _block(draw, g, f"layers.{layer}", ratio, hashed=layer < g.num_hash_layers)
    if g.num_nextn_predict_layers:
        _decoy(draw, g)
    return draw.tensors


class _Draw:
    """Draws tensors and stores them in the formats of one dtype."""

    def __init__(self, dtype: Dtype, seed: int) -> None:
        self.dtype = dtype
        self.seed = seed
        self.tensors: Tensors = {}

    def generator(self, key: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(key.encode())])

    def normal(self, key: str, *shape: int) -> F64:
        return self.generator(key).standard_normal(shape)

    def vector(self, name: str, values: npt.ArrayLike, tag: Literal["F32", "BF16"] = "F32") -> None:
        """Store unquantised values of any shape."""
        single = np.asarray(values, np.float32)
        if tag == "BF16" and self.dtype != "float32":
            self.tensors[name] = Stored("BF16", bf16_bits(round_bf16(single)))
        else:
            self.tensors[name] = Stored("F32", single)

    def norm(self, name: str, size: int) -> None:
        self.vector(name, 1 + 0.2 * self.normal(name, size), "BF16")

    def matrix(self, name: str, rows: int, columns: int, kind: Kind = "fp8", gain: float = 1.0) -> None:
        """Store `name`.weight [rows, columns] and, if quantised, `name`.scale. Neighbouring scale blocks differ visibly."""
        generator = self.generator(name)
        values = generator.standard_normal((rows, columns)) * (gain / np.sqrt(columns))
        edge = FP4_BLOCK if kind == "fp4" else FP8_BLOCK
        block_rows = rows if kind == "fp4" else -(-rows // edge)
        spread = 2.0 ** generator.uniform(-1.5, 1.0, (block_rows, -(-columns // edge)))
        if kind != "bf16":
            by_row = spread if kind == "fp4" else np.repeat(spread, edge, 0)[:rows]
            values = values * np.repeat(by_row, edge, 1)[:, :columns]
        if self.dtype != "fp4fp8" or kind == "bf16":
            self.vector(f"{name}.weight", values, "BF16")
            return
        codes, scales = quantise_fp4(values) if kind == "fp4" else quantise_fp8(values)
        self.tensors[f"{name}.weight"] = Stored("I8" if kind == "fp4" else "F8_E4M3", codes)
        self.tensors[f"{name}.scale"] = Stored("F8_E8M0", scales)


def _block(draw: _Draw, g: Geometry, prefix: str, ratio: int, *, hashed: bool) -> None:
    streams = g.hc_mult * g.hidden_size
    mixes = (2 + g.hc_mult) * g.hc_mult
    for half in ("attn", "ffn"):
        key = prefix + half
        draw.vector(f"{prefix}.hc_{half}_fn", draw.normal(key + "f", mixes, streams) / np.sqrt(streams))
        draw.vector(f"{prefix}.hc_{half}_base", 0.7 * draw.normal(key + "b", mixes))
        scale = np.array([1.0, 0.8, 1.2]) * draw.generator(key + "s").uniform(0.7, 1.3, 3)
        draw.vector(f"{prefix}.hc_{half}_scale", scale)
        draw.norm(f"{prefix}.{half}_norm.weight", g.hidden_size)
    _attention(draw, g, f"{prefix}.attn", ratio)
    _experts(draw, g, f"{prefix}.ffn", hashed)


def _attention(draw: _Draw, g: Geometry, prefix: str, ratio: int) -> None:
    heads = g.num_attention_heads * g.head_dim
    outputs = g.o_groups * g.o_lora_rank
    draw.vector(f"{prefix}.attn_sink", draw.normal(prefix + "sink", g.num_attention_heads))
    draw.matrix(f"{prefix}.wq_a", g.q_lora_rank, g.hidden_size)
    draw.norm(f"{prefix}.q_norm.weight", g.q_lora_rank)
    draw.matrix(f"{prefix}.wq_b", heads, g.q_lora_rank)
    draw.matrix(f"{prefix}.wkv", g.head_dim, g.hidden_size)
    draw.norm(f"{prefix}.kv_norm.weight", g.head_dim)
    draw.matrix(f"{prefix}.wo_a", outputs, heads // g.o_groups, gain=2.0)
    draw.matrix(f"{prefix}.wo_b", g.hidden_size, outputs, gain=2.0)
    if ratio:
        _compressor(draw, g, f"{prefix}.compressor", g.head_dim, ratio)
    if ratio == 4:
        indexer = f"{prefix}.indexer"
        _compressor(draw, g, f"{indexer}.compressor", g.index_head_dim, ratio)
        draw.matrix(f"{indexer}.wq_b", g.index_n_heads * g.index_head_dim, g.q_lora_rank)
        draw.matrix(f"{indexer}.weights_proj", g.index_n_heads, g.hidden_size, "bf16")


def _compressor(draw: _Draw, g: Geometry, prefix: str, dim: int, ratio: int) -> None:
    width = 2 * dim if ratio == 4 else dim
    draw.matrix(f"{prefix}.wkv", width, g.hidden_size, "bf16")
    draw.matrix(f"{prefix}.wgate", width, g.hidden_size, "bf16", gain=1.5)
    draw.vector(f"{prefix}.ape", draw.normal(prefix + "ape", ratio, width))
    draw.norm(f"{prefix}.norm.weight", dim)


def _experts(draw: _Draw, g: Geometry, prefix: str, hashed: bool) -> None:
    draw.matrix(f"{prefix}.gate", g.n_routed_experts, g.hidden_size, "bf16", gain=2.0)
    if hashed:
        generator = draw.generator(prefix + "tid")
        table = [generator.permutation(g.n_routed_experts)[: g.num_experts_per_tok] for _ in range(g.vocab_size)]
        draw.tensors[f"{prefix}.gate.tid2eid"] = Stored("I64", np.stack(table).astype(np.int64))
    else:
        draw.vector(f"{prefix}.gate.bias", 0.3 * draw.normal(prefix + "bias", g.n_routed_experts))
    experts = [(f"{prefix}.experts.{expert}", "fp4") for expert in range(g.n_routed_experts)]
    for expert, kind in [*experts, (f"{prefix}.shared_experts", "fp8")]:
        draw.matrix(f"{expert}.w1", g.moe_intermediate_size, g.hidden_size, kind, gain=2.0)
        draw.matrix(f"{expert}.w3", g.moe_intermediate_size, g.hidden_size, kind, gain=2.0)
        draw.matrix(f"{expert}.w2", g.hidden_size, g.moe_intermediate_size, kind, gain=2.0)


def _decoy(draw: _Draw, g: Geometry) -> None:
    _block(draw, g, "mtp.0", 0, hashed=False)
    for name in ("e_proj", "h_proj"):
        draw.matrix(f"mtp.0.{name}", g.hidden_size, g.hidden_size)
    for name in ("enorm", "hnorm", "norm"):
        draw.norm(f"mtp.0.{name}.weight", g.hidden_size)
    draw.vector("mtp.0.hc_head_fn", draw.normal("mhf", g.hc_mult, g.hc_mult * g.hidden_size))
    draw.vector("mtp.0.hc_head_base", draw.normal("mhb", g.hc_mult))
    draw.vector("mtp.0.hc_head_scale", np.ones(1))
    draw.vector("mtp.0.embed.weight", draw.normal("me", g.vocab_size, g.hidden_size), "BF16")


def random_prompt(geometry: Geometry, seed: int, length: int) -> list[int]:
    """Token ids 2..V-1; 0 and 1 begin and end a sequence."""
    return np.random.default_rng([seed, 99]).integers(2, geometry.vocab_size, length).tolist()

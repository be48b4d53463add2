"""Checkpoints for the fuzzer: the embedded one, and small random ones whose sizes meet no edge that a kernel is written for."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from oracle.checkpoint_files import write_checkpoint
from oracle.geometry import DTYPES, Dtype, Geometry
from oracle.random_checkpoint import random_tensors

import kernels

MOTE = "mote"


@dataclass(frozen=True)
class Model:
    """A checkpoint, and the prompt lengths worth starting from: before, at and after where windows wrap and rows are finished."""

    directory: Path
    config: kernels.Config
    lengths: tuple[int, ...]


def mote() -> Model:
    """Few lengths: with scalar kernels a token takes long, and what is cached is met again. 131 is past every edge there is."""
    directory = kernels.builtin_checkpoint()
    return Model(directory, kernels.Checkpoint.open(directory).config, (1, 4, 9, 9, 30, 131))


def odd_model(number: int, directory: Path) -> Model:
    """Random checkpoint `number`, written to the directory unless it is there."""
    geometry, dtype = odd_geometry(number)
    if not (directory / "config.json").exists():
        write_checkpoint(directory, geometry, dtype, random_tensors(geometry, dtype, number), shards=1 + number % 3)
    window, longest = geometry.sliding_window, max(geometry.compress_ratios, default=0)
    lengths = {1, 3, 4, 5, window - 1, window, window + 1, longest, longest + 1, 2 * longest + 1, 3 * window + 2}
    return Model(directory, kernels.Checkpoint.open(directory).config, tuple(sorted(length for length in lengths if length > 0)))


def odd_geometry(number: int) -> tuple[Geometry, Dtype]:
    """Sizes by seed: widths that are multiples of 16 (of 32 where FP4 needs it) and of nothing more, one head or many, one
    stream or eight, one expert a token up to eight of them.
    """
    draw = random.Random(f"geometry {number}")
    dtype = draw.choice(DTYPES)
    step = 32 if dtype == "fp4fp8" else 16

    def width(low: int, high: int, step: int = 16) -> int:
        return step * draw.randint(low // step, high // step)

    rope = draw.choice((16, 32, 48))
    groups = draw.choice((1, 2, 3))
    experts = draw.randint(3, 24)
    ratios = tuple(draw.choice((0, 4, 4, draw.choice((3, 5, 8, 16)))) for _ in range(draw.randint(2, 5)))
    geometry = Geometry(
        vocab_size=draw.randint(40, 300),
        hidden_size=width(64, 320, step),
        num_attention_heads=groups * draw.randint(1, 4),
        head_dim=rope + width(16, 144),
        qk_rope_head_dim=rope,
        q_lora_rank=width(16, 176),
        o_groups=groups,
        o_lora_rank=width(16, 144),
        n_routed_experts=experts,
        num_experts_per_tok=draw.randint(1, min(8, experts)),
        moe_intermediate_size=width(32, 224, step),
        sliding_window=draw.randint(2, 19),
        compress_ratios=ratios,
        num_hash_layers=draw.randint(0, len(ratios) - 1),
        index_n_heads=draw.randint(1, 9),
        index_head_dim=draw.choice((64, 128)),
        index_topk=draw.randint(1, 6),
        hc_mult=draw.randint(1, 8),
        hc_sinkhorn_iters=draw.randint(1, 20),
        swiglu_limit=draw.choice((0.0, 0.5, 2.0)),
        yarn_original_length=draw.choice((16, 64)),
        num_nextn_predict_layers=0,
    )
    return geometry, dtype

"""Sizes and constants of the checkpoint, and the config.json that states them (reference page, section 1)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def flash_ratios(layers: int) -> tuple[int, ...]:
    """Flash's layer pattern: two sliding layers, then 4 and 128 in turn."""
    return tuple(0 if layer < 2 else 4 if layer % 2 == 0 else 128 for layer in range(layers))


@dataclass(frozen=True)
class Geometry:
    """The default is `mote`: Flash's pattern and constants, with the widths cut until it fits 48 MB.

    Widths that meet a quantiser are multiples of its block (128 for FP8 activations and weights, 32 for FP4 weights).
    """

    vocab: int = 8192
    hidden: int = 256
    ratios: tuple[int, ...] = field(default_factory=lambda: flash_ratios(12))
    heads: int = 8
    head_dim: int = 128
    rope_dim: int = 64
    q_lora: int = 128
    o_groups: int = 4
    o_lora: int = 128
    window: int = 128
    experts: int = 32
    topk: int = 6
    inter: int = 128
    hash_layers: int = 3
    index_heads: int = 32
    index_dim: int = 128
    index_topk: int = 32
    streams: int = 4
    sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    norm_eps: float = 1e-6
    route_scale: float = 1.5
    swiglu_limit: float = 10.0
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    yarn_factor: float = 16.0
    yarn_original: int = 65536

    @property
    def layers(self) -> int:
        return len(self.ratios)

    def config(self) -> dict[str, Any]:
        """config.json under the official keys."""
        yarn = {
            "type": "yarn",
            "factor": self.yarn_factor,
            "beta_fast": 32,
            "beta_slow": 1,
            "original_max_position_embeddings": self.yarn_original,
        }
        return {
            "architectures": ["DeepseekV4ForCausalLM"],
            "model_type": "deepseek_v4",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "hidden_act": "silu",
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": 1,
            "head_dim": self.head_dim,
            "qk_rope_head_dim": self.rope_dim,
            "q_lora_rank": self.q_lora,
            "o_lora_rank": self.o_lora,
            "o_groups": self.o_groups,
            "n_routed_experts": self.experts,
            "n_shared_experts": 1,
            "num_experts_per_tok": self.topk,
            "moe_intermediate_size": self.inter,
            "scoring_func": "sqrtsoftplus",
            "topk_method": "noaux_tc",
            "norm_topk_prob": True,
            "routed_scaling_factor": self.route_scale,
            "swiglu_limit": self.swiglu_limit,
            "num_hash_layers": self.hash_layers,
            "sliding_window": self.window,
            "compress_ratios": list(self.ratios),
            "compress_rope_theta": self.compress_rope_theta,
            "index_n_heads": self.index_heads,
            "index_head_dim": self.index_dim,
            "index_topk": self.index_topk,
            "hc_mult": self.streams,
            "hc_sinkhorn_iters": self.sinkhorn_iters,
            "hc_eps": self.hc_eps,
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": yarn,
            "max_position_embeddings": int(self.yarn_factor * self.yarn_original),
            "num_nextn_predict_layers": 0,
            "tie_word_embeddings": False,
            "initializer_range": 0.02,
            "use_cache": True,
            "torch_dtype": "bfloat16",
            "expert_dtype": "fp4",
            "quantization_config": {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "scale_fmt": "ue8m0",
                "weight_block_size": [128, 128],
            },
        }


def read_geometry(directory: Path) -> Geometry:
    """The geometry that a checkpoint's config.json states; a config without rope_scaling means an unscaled rope."""
    c = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    yarn = c.get("rope_scaling") or {"factor": 1.0, "original_max_position_embeddings": 65536}
    layers = c["num_hidden_layers"]
    return Geometry(
        vocab=c["vocab_size"],
        hidden=c["hidden_size"],
        ratios=tuple(c["compress_ratios"][:layers]),
        heads=c["num_attention_heads"],
        head_dim=c["head_dim"],
        rope_dim=c["qk_rope_head_dim"],
        q_lora=c["q_lora_rank"],
        o_groups=c["o_groups"],
        o_lora=c["o_lora_rank"],
        window=c["sliding_window"],
        experts=c["n_routed_experts"],
        topk=c["num_experts_per_tok"],
        inter=c["moe_intermediate_size"],
        hash_layers=c["num_hash_layers"],
        index_heads=c["index_n_heads"],
        index_dim=c["index_head_dim"],
        index_topk=c["index_topk"],
        streams=c["hc_mult"],
        sinkhorn_iters=c["hc_sinkhorn_iters"],
        hc_eps=c["hc_eps"],
        norm_eps=c["rms_norm_eps"],
        route_scale=c["routed_scaling_factor"],
        swiglu_limit=c["swiglu_limit"],
        rope_theta=c["rope_theta"],
        compress_rope_theta=c["compress_rope_theta"],
        yarn_factor=yarn["factor"],
        yarn_original=yarn["original_max_position_embeddings"],
    )

"""Shapes and constants of the models that the reference vectors come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Dtype = Literal["float32", "bf16", "fp4fp8"]
DTYPES: tuple[Dtype, ...] = ("float32", "bf16", "fp4fp8")


@dataclass(frozen=True)
class Geometry:
    """One model's configuration; fields carry the official config.json names (reference section 1).

    The defaults are the full check: eight layers of every kind, several windows long at position 109, a top-8 cut of up
    to 27 compressed rows, clamps that fire at a limit of 2, YaRN that matters below position 110. Many index heads keep exact
    score ties out, which few heads would produce by scores of zero (reference section 9).
    """

    vocab_size: int = 512
    hidden_size: int = 256
    num_attention_heads: int = 8
    head_dim: int = 128
    qk_rope_head_dim: int = 64
    q_lora_rank: int = 128
    o_groups: int = 4
    o_lora_rank: int = 64
    n_routed_experts: int = 32
    num_experts_per_tok: int = 6
    moe_intermediate_size: int = 64
    sliding_window: int = 16
    compress_ratios: tuple[int, ...] = (0, 0, 4, 8, 4, 8, 4, 8)
    num_hash_layers: int = 3
    index_n_heads: int = 32
    index_head_dim: int = 128
    index_topk: int = 8
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    swiglu_limit: float = 2.0
    routed_scaling_factor: float = 1.5
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    yarn_factor: float = 16.0
    yarn_original_length: int = 64
    num_nextn_predict_layers: int = 1
    hc_eps: float = 1e-6
    rms_norm_eps: float = 1e-6

    @property
    def num_hidden_layers(self) -> int:
        return len(self.compress_ratios)

    @property
    def hca_ratio(self) -> int:
        """The ratio of the layers without an indexer; transformers knows one per model."""
        ratios = {ratio for ratio in self.compress_ratios if ratio not in (0, 4)}
        if len(ratios) > 1:
            raise ValueError(f"one ratio besides 0 and 4 expected, found {sorted(ratios)}")
        return ratios.pop() if ratios else 128

    def config(self, dtype: Dtype) -> dict[str, Any]:
        """The official config.json of a checkpoint with these shapes."""
        config: dict[str, Any] = {
            "architectures": ["DeepseekV4ForCausalLM"],
            "model_type": "deepseek_v4",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "hidden_act": "silu",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": 1,
            "head_dim": self.head_dim,
            "qk_rope_head_dim": self.qk_rope_head_dim,
            "q_lora_rank": self.q_lora_rank,
            "o_lora_rank": self.o_lora_rank,
            "o_groups": self.o_groups,
            "n_routed_experts": self.n_routed_experts,
            "n_shared_experts": 1,
            "num_experts_per_tok": self.num_experts_per_tok,
            "moe_intermediate_size": self.moe_intermediate_size,
            "scoring_func": "sqrtsoftplus",
            "topk_method": "noaux_tc",
            "norm_topk_prob": True,
            "routed_scaling_factor": self.routed_scaling_factor,
            "swiglu_limit": self.swiglu_limit,
            "num_hash_layers": self.num_hash_layers,
            "sliding_window": self.sliding_window,
            "compress_ratios": [*self.compress_ratios, *[0] * self.num_nextn_predict_layers],
            "compress_rope_theta": self.compress_rope_theta,
            "index_n_heads": self.index_n_heads,
            "index_head_dim": self.index_head_dim,
            "index_topk": self.index_topk,
            "hc_mult": self.hc_mult,
            "hc_sinkhorn_iters": self.hc_sinkhorn_iters,
            "hc_eps": self.hc_eps,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": {
                "type": "yarn",
                "factor": self.yarn_factor,
                "beta_fast": 32,
                "beta_slow": 1,
                "original_max_position_embeddings": self.yarn_original_length,
            },
            "max_position_embeddings": int(self.yarn_factor * self.yarn_original_length),
            "num_nextn_predict_layers": self.num_nextn_predict_layers,
            "tie_word_embeddings": False,
            "initializer_range": 0.02,
            "use_cache": True,
            "torch_dtype": "float32" if dtype == "float32" else "bfloat16",
        }
        if dtype == "fp4fp8":
            config["expert_dtype"] = "fp4"
            config["quantization_config"] = {
                "activation_scheme": "dynamic",
                "fmt": "e4m3",
                "quant_method": "fp8",
                "scale_fmt": "ue8m0",
                "weight_block_size": [128, 128],
            }
        return config

    @staticmethod
    def of_checkpoint(directory: Path) -> Geometry:
        """The geometry that a directory's config.json states; without rope_scaling there is no YaRN."""
        config = json.loads((directory / "config.json").read_text())
        own = {name: config[name] for name in Geometry.__dataclass_fields__ if name in config}
        own["compress_ratios"] = tuple(config["compress_ratios"][: config["num_hidden_layers"]])
        scaling = config.get("rope_scaling") or {}
        own["yarn_factor"] = scaling.get("factor", 1.0)
        own["yarn_original_length"] = scaling.get("original_max_position_embeddings", 0)
        return Geometry(**own)


FULL = Geometry()

SMALL = Geometry(
    vocab_size=128,
    hidden_size=160,
    num_attention_heads=4,
    head_dim=96,
    qk_rope_head_dim=32,
    q_lora_rank=64,
    o_groups=2,
    o_lora_rank=32,
    n_routed_experts=12,
    moe_intermediate_size=64,
    sliding_window=8,
    compress_ratios=(0, 0, 4, 8, 4, 8),
    index_n_heads=16,
    index_head_dim=64,
    index_topk=4,
    yarn_original_length=32,
)
"""The committed vectors: no size equals FULL's or the embedded checkpoint's where it may differ, and a hidden size of 160 leaves
a ragged block of 32 at every FP8 linear, so that a decoder which hard-codes a size fails here."""

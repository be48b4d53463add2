"""A checkpoint of the official layout as the GGUF file that llama.cpp reads: architecture "deepseek4", the same weights.

Routed experts keep their bits (MXFP4 is FP4 with E8M0 scales in another nibble order), unless all is to be FP32. GGUF has no FP8:
its matrices become BF16, which holds them exactly in twice the size, or Q8_0, which has about their size and rounds. BF16 stays
as it is, but for norms and the router, which become F32. There is no vocabulary: token IDs go in and come out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from oracle.checkpoint_files import Stored, Tensors, dequantise, read_checkpoint

F32, BF16, Q8_0, MXFP4 = (getattr(gguf.GGMLQuantizationType, name) for name in ("F32", "BF16", "Q8_0", "MXFP4"))


@dataclass(frozen=True)
class Types:
    """What a file holds each kind of matrix in."""

    fp4: gguf.GGMLQuantizationType
    fp8: gguf.GGMLQuantizationType
    bf16: gguf.GGMLQuantizationType


FILES = {"FP32": Types(F32, F32, F32), "BF16": Types(MXFP4, BF16, BF16), "Q8_0": Types(MXFP4, Q8_0, BF16)}
"""The files that may be written. FP32 and BF16 hold every weight exactly; Q8_0 rounds those of FP8."""

SQRT_SOFTPLUS = 4
"""llama.cpp's number of the router's scoring function."""

GLOBAL = {
    "embed.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "head.weight": "output.weight",
    "hc_head_fn": "output_hc_fn.weight",
    "hc_head_base": "output_hc_base.weight",
    "hc_head_scale": "output_hc_scale.weight",
}

LAYER = {
    "attn_norm.weight": "attn_norm.weight",
    "ffn_norm.weight": "ffn_norm.weight",
    "attn.attn_sink": "attn_sinks.weight",
    "attn.wq_a.weight": "attn_q_a.weight",
    "attn.q_norm.weight": "attn_q_a_norm.weight",
    "attn.wq_b.weight": "attn_q_b.weight",
    "attn.wkv.weight": "attn_kv.weight",
    "attn.kv_norm.weight": "attn_kv_a_norm.weight",
    "attn.wo_a.weight": "attn_output_a.weight",
    "attn.wo_b.weight": "attn_output_b.weight",
    "attn.indexer.wq_b.weight": "indexer.attn_q_b.weight",
    "attn.indexer.weights_proj.weight": "indexer.proj.weight",
    "ffn.gate.weight": "ffn_gate_inp.weight",
    "ffn.gate.bias": "exp_probs_b.bias",
    "ffn.gate.tid2eid": "ffn_gate_tid2eid.weight",
    "ffn.shared_experts.w1.weight": "ffn_gate_shexp.weight",
    "ffn.shared_experts.w2.weight": "ffn_down_shexp.weight",
    "ffn.shared_experts.w3.weight": "ffn_up_shexp.weight",
    **{f"hc_{half}_{part}": f"hc_{half}_{part}.weight" for half in ("attn", "ffn") for part in ("fn", "base", "scale")},
    **{
        f"attn.{ours}compressor.{part}": f"{theirs}_compressor_{name}.weight"
        for ours, theirs in (("", "attn"), ("indexer.", "indexer"))
        for part, name in (("wkv.weight", "kv"), ("wgate.weight", "gate"), ("ape", "ape"), ("norm.weight", "norm"))
    },
}

EXPERTS = {"w1": "ffn_gate_exps.weight", "w2": "ffn_down_exps.weight", "w3": "ffn_up_exps.weight"}


def write_gguf(checkpoint: Path, target: Path, types: Types) -> Path:
    config = json.loads((checkpoint / "config.json").read_text())
    tensors = read_checkpoint(checkpoint)
    writer = gguf.GGUFWriter(target, "deepseek4")
    _write_keys(writer, config)
    for name, new in GLOBAL.items():
        _add(writer, new, tensors, name, types)
    for layer in range(config["num_hidden_layers"]):
        for part, new in LAYER.items():
            if f"layers.{layer}.{part}" in tensors:
                _add(writer, f"blk.{layer}.{new}", tensors, f"layers.{layer}.{part}", types)
        for matrix, new in EXPERTS.items():
            names = [f"layers.{layer}.ffn.experts.{expert}.{matrix}" for expert in range(config["n_routed_experts"])]
            stacked = np.stack([_expert(tensors, name, types.fp4) for name in names])
            writer.add_tensor(f"blk.{layer}.{new}", stacked, raw_dtype=types.fp4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _expert(tensors: Tensors, name: str, kind: gguf.GGMLQuantizationType) -> npt.NDArray[Any]:
    """A routed expert's matrix, with its own bits or the values that they stand for."""
    if kind == MXFP4:
        return mxfp4(tensors[f"{name}.weight"], tensors[f"{name}.scale"])
    return np.asarray(gguf.quants.quantize(np.ascontiguousarray(dequantise(tensors, f"{name}.weight"), np.float32), kind))


def mxfp4(weight: Stored, scale: Stored) -> npt.NDArray[np.uint8]:
    """FP4 [R, C/2] and its scales [R, C/32] -> blocks of a scale byte and sixteen bytes, weight j low and weight 16+j high."""
    rows, packed = weight.data.shape
    pairs = weight.data.view(np.uint8).reshape(rows, packed // 16, 16)
    codes = np.stack([pairs & 15, pairs >> 4], -1).reshape(rows, packed // 16, 32)
    blocks = np.concatenate([scale.data.view(np.uint8)[..., None], codes[..., :16] | (codes[..., 16:] << 4)], -1)
    return np.ascontiguousarray(blocks.reshape(rows, -1).astype(np.uint8))


def _add(writer: gguf.GGUFWriter, new: str, tensors: Tensors, name: str, types: Types) -> None:
    tag = tensors[name].tag
    values = dequantise(tensors, name)
    if tag == "I64":
        writer.add_tensor(new, values.astype(np.int32))
        return
    kind = F32
    if tag == "F8_E4M3":
        kind = types.fp8
    elif tag == "BF16" and values.ndim == 2 and not name.endswith("ffn.gate.weight"):
        kind = types.bf16
    writer.add_tensor(new, gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind), raw_dtype=kind)


def _write_keys(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    layers = config["num_hidden_layers"]
    integers = {
        "block_count": layers,
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "embedding_length_out": config["hidden_size"] * config["hc_mult"],
        "feed_forward_length": config["moe_intermediate_size"],
        "vocab_size": config["vocab_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": 1,
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.q_lora_rank": config["q_lora_rank"],
        "attention.sliding_window": config["sliding_window"],
        "attention.output_group_count": config["o_groups"],
        "attention.output_lora_rank": config["o_lora_rank"],
        "attention.indexer.head_count": config["index_n_heads"],
        "attention.indexer.key_length": config["index_head_dim"],
        "attention.indexer.top_k": config["index_topk"],
        "rope.dimension_count": config["qk_rope_head_dim"],
        "rope.scaling.original_context_length": config["rope_scaling"]["original_max_position_embeddings"],
        "expert_count": config["n_routed_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_shared_count": config["n_shared_experts"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
        "expert_gating_func": SQRT_SOFTPLUS,
        "hyper_connection.count": config["hc_mult"],
        "hyper_connection.sinkhorn_iterations": config["hc_sinkhorn_iters"],
        "hash_layer_count": config["num_hash_layers"],
    }
    floats = {
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.compress_rope_freq_base": config["compress_rope_theta"],
        "rope.freq_base": config["rope_theta"],
        "rope.scaling.factor": config["rope_scaling"]["factor"],
        "rope.scaling.yarn_beta_fast": config["rope_scaling"]["beta_fast"],
        "rope.scaling.yarn_beta_slow": config["rope_scaling"]["beta_slow"],
        "expert_weights_scale": config["routed_scaling_factor"],
        "hyper_connection.epsilon": config["hc_eps"],
    }
    for key, integer in integers.items():
        writer.add_uint32(f"deepseek4.{key}", integer)
    for key, number in floats.items():
        writer.add_float32(f"deepseek4.{key}", number)
    writer.add_string("deepseek4.rope.scaling.type", "yarn")
    writer.add_bool("deepseek4.expert_weights_norm", True)
    writer.add_array("deepseek4.swiglu_clamp_exp", [float(config["swiglu_limit"])] * layers)
    writer.add_array("deepseek4.swiglu_clamp_shexp", [float(config["swiglu_limit"])] * layers)
    writer.add_array("deepseek4.attention.compress_ratios", config["compress_ratios"][:layers])
    writer.add_string("tokenizer.ggml.model", "none")

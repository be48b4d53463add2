"""transformers' DeepSeek-V4 on a checkpoint's dequantised weights, in float32 or in true float64.

Needs torch and transformers. Weights are handed over by name, not through transformers' own loader, so that both sides
compute on equal values and a loader's dtype choices stay out of the comparison.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as modeling

from oracle.checkpoint_files import Stored, dequantise
from oracle.geometry import Geometry
from oracle.step_attention import rope_frequencies

Values = Mapping[str, npt.NDArray[Any]]


@dataclass
class Pass:
    """One forward pass over T tokens."""

    logits: npt.NDArray[Any]  # [T,V]
    streams: npt.NDArray[Any]  # [T,L,hc,D] after each layer
    routes: npt.NDArray[np.int64]  # [T,L,k] ascending ids
    router_logits: npt.NDArray[Any]  # [T,L,E]
    index_rows: dict[int, npt.NDArray[np.int64]]  # layer -> [T, <= index_topk], -1 padded, no promised order


def transformers_config(geometry: Geometry) -> DeepseekV4Config:
    """The config of the same model in transformers' terms; eager code paths, whose order of sums is plain."""
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    g = geometry
    config = DeepseekV4Config(
        vocab_size=g.vocab_size,
        hidden_size=g.hidden_size,
        moe_intermediate_size=g.moe_intermediate_size,
        num_hidden_layers=g.num_hidden_layers,
        num_attention_heads=g.num_attention_heads,
        head_dim=g.head_dim,
        q_lora_rank=g.q_lora_rank,
        num_experts_per_tok=g.num_experts_per_tok,
        n_routed_experts=g.n_routed_experts,
        routed_scaling_factor=g.routed_scaling_factor,
        rope_theta=g.rope_theta,
        max_position_embeddings=int(g.yarn_factor * g.yarn_original_length),
        compress_rope_theta=g.compress_rope_theta,
        hc_mult=g.hc_mult,
        hc_sinkhorn_iters=g.hc_sinkhorn_iters,
        hc_eps=g.hc_eps,
        swiglu_limit=g.swiglu_limit,
        sliding_window=g.sliding_window,
        o_groups=g.o_groups,
        o_lora_rank=g.o_lora_rank,
        index_n_heads=g.index_n_heads,
        index_head_dim=g.index_head_dim,
        index_topk=g.index_topk,
        rms_norm_eps=g.rms_norm_eps,
        partial_rotary_factor=g.qk_rope_head_dim / g.head_dim,
        layer_types=[kinds.get(ratio, "heavily_compressed_attention") for ratio in g.compress_ratios],
        mlp_layer_types=["hash_moe" if layer < g.num_hash_layers else "moe" for layer in range(g.num_hidden_layers)],
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": g.hca_ratio},
        rope_parameters={
            "rope_type": "yarn",
            "factor": g.yarn_factor,
            "beta_fast": 32,
            "beta_slow": 1,
            "rope_theta": g.compress_rope_theta,
            "original_max_position_embeddings": g.yarn_original_length,
        },
        pad_token_id=None,
        bos_token_id=0,
        eos_token_id=1,
    )
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return config


def renamed_weights(geometry: Geometry, values: Values) -> dict[str, npt.NDArray[Any]]:
    """Official tensor names -> transformers' names."""
    renamed = {
        "model.embed_tokens.weight": values["embed.weight"],
        "lm_head.weight": values["head.weight"],
        "model.norm.weight": values["norm.weight"],
    }
    for part in ("fn", "base", "scale"):
        renamed[f"model.hc_head.hc_{part}"] = values[f"hc_head_{part}"]
    for layer in range(geometry.num_hidden_layers):
        renamed.update(_layer(geometry, layer, values))
    return renamed


def _layer(geometry: Geometry, layer: int, values: Values) -> dict[str, npt.NDArray[Any]]:
    ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
    attention = {
        "attn.wq_a.weight": "self_attn.q_a_proj.weight",
        "attn.wq_b.weight": "self_attn.q_b_proj.weight",
        "attn.wkv.weight": "self_attn.kv_proj.weight",
        "attn.wo_a.weight": "self_attn.o_a_proj.weight",
        "attn.wo_b.weight": "self_attn.o_b_proj.weight",
        "attn.q_norm.weight": "self_attn.q_a_norm.weight",
        "attn.kv_norm.weight": "self_attn.kv_norm.weight",
        "attn.attn_sink": "self_attn.sinks",
        "attn_norm.weight": "input_layernorm.weight",
        "ffn_norm.weight": "post_attention_layernorm.weight",
        "attn.indexer.wq_b.weight": "self_attn.compressor.indexer.q_b_proj.weight",
        "attn.indexer.weights_proj.weight": "self_attn.compressor.indexer.scorer.weights_proj.weight",
        "ffn.gate.weight": "mlp.gate.weight",
        "ffn.gate.tid2eid": "mlp.gate.tid2eid",
        "ffn.gate.bias": "mlp.gate.e_score_correction_bias",
        "ffn.shared_experts.w1.weight": "mlp.shared_experts.gate_proj.weight",
        "ffn.shared_experts.w2.weight": "mlp.shared_experts.down_proj.weight",
        "ffn.shared_experts.w3.weight": "mlp.shared_experts.up_proj.weight",
    }
    for half in ("attn", "ffn"):
        attention.update({f"hc_{half}_{part}": f"{half}_hc.{part}" for part in ("fn", "base", "scale")})
    compressors = {"attn.compressor": "self_attn.compressor", "attn.indexer.compressor": "self_attn.compressor.indexer"}
    for source, target in compressors.items():
        attention[f"{source}.wkv.weight"] = f"{target}.kv_proj.weight"
        attention[f"{source}.wgate.weight"] = f"{target}.gate_proj.weight"
        attention[f"{source}.ape"] = f"{target}.position_bias"
        attention[f"{source}.norm.weight"] = f"{target}.kv_norm.weight"
    renamed = {f"{theirs}.{new}": values[f"{ours}.{old}"] for old, new in attention.items() if f"{ours}.{old}" in values}
    experts = [f"{ours}.ffn.experts.{expert}" for expert in range(geometry.n_routed_experts)]
    both = [np.concatenate([values[f"{expert}.w1.weight"], values[f"{expert}.w3.weight"]]) for expert in experts]
    renamed[f"{theirs}.mlp.experts.gate_up_proj"] = np.stack(both)
    renamed[f"{theirs}.mlp.experts.down_proj"] = np.stack([values[f"{expert}.w2.weight"] for expert in experts])
    return renamed


class TransformersReference:
    """The model with hooks that keep streams, routes and index rows of the last pass."""

    def __init__(self, geometry: Geometry, tensors: Mapping[str, Stored], *, double: bool) -> None:
        self.geometry = geometry
        self.double = double
        self.model = DeepseekV4ForCausalLM(transformers_config(geometry)).eval().to(torch.float32)
        names = [name for name in tensors if not name.endswith(".scale") and not name.startswith("mtp.")]
        values = {name: dequantise(tensors, name) for name in names}
        state = {name: torch.from_numpy(np.array(value)) for name, value in renamed_weights(geometry, values).items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        missing = [name for name in missing if "inv_freq" not in name]
        if missing or unexpected:
            raise ValueError(f"weights do not fit transformers' model: missing {missing}, unexpected {unexpected}")
        if double:
            self.model.double()
            self._widen_frequencies()
        self._kept: dict[tuple[str, int], Any] = {}
        for layer, module in enumerate(self.model.model.layers):
            self._keep("streams", layer, module)
            self._keep("router", layer, module.mlp.gate)
            if geometry.compress_ratios[layer] == 4:
                self._keep("index", layer, module.self_attn.compressor.indexer)

    def _keep(self, what: str, layer: int, module: Any) -> None:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            self._kept[what, layer] = output

        module.register_forward_hook(hook)

    def _widen_frequencies(self) -> None:
        """FP32 angles per position, widened, would err by 1e-7 a position; compute them in float64 instead."""
        for module in self.model.modules():
            if isinstance(module, modeling.DeepseekV4RotaryEmbedding):
                for kind, compressed in (("main", False), ("compress", True)):
                    frequencies = torch.from_numpy(rope_frequencies(self.geometry, compressed))
                    setattr(module, f"{kind}_inv_freq", frequencies)
                    setattr(module, f"{kind}_original_inv_freq", frequencies)

    def __call__(self, ids: Sequence[int]) -> Pass:
        """One pass over all ids, without a cache."""
        with torch.no_grad(), _float64_stays() if self.double else contextlib.nullcontext():
            logits = self.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].numpy().copy()
        layers = range(self.geometry.num_hidden_layers)
        router = [self._kept["router", layer] for layer in layers]
        return Pass(
            logits,
            np.stack([self._kept["streams", layer][0].numpy() for layer in layers], 1),
            np.stack([np.sort(chosen.numpy().reshape(len(ids), -1), -1) for _, _, chosen in router], 1),
            np.stack([scores.numpy().reshape(len(ids), -1) for scores, _, _ in router], 1),
            {layer: self._kept["index", layer][0].numpy() for layer in layers if ("index", layer) in self._kept},
        )


class _TorchWithoutFloat32:
    """Stands in for the torch module inside transformers' model code: its explicit float32 becomes float64."""

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextlib.contextmanager
def _float64_stays() -> Iterator[None]:
    """The model code casts to float32 at norms, rope, softmax and hyper-connections; in a float64 pass that must not narrow."""
    method = mock.patch.object(torch.Tensor, "float", torch.Tensor.double)
    module = mock.patch.object(modeling, "torch", _TorchWithoutFloat32())
    with method, module:
        yield

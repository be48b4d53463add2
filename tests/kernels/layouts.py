"""Checkpoint directories in the official layout without their weights; `damages.py` makes damaged ones of them.

Files are created by truncation, so that the 160 GB of the Flash geometry take no disk and seconds to write. Shapes and dtypes are
written down here from reference section 2, apart from the reader's own table, so that each checks the other.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

INDEX = "model.safetensors.index.json"
DTYPE_BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "I64": 8}

FLASH_SHARDS = 46
FLASH_TENSORS = 69_187
FLASH_BYTES = 159_609_485_896
"""What reference section 2 quotes from the released index; `tensors(flash_config())`, mtp.0 included, gives both to the byte."""


def flash_config() -> dict[str, Any]:
    """config.json of DeepSeek-V4-Flash (reference section 1)."""
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "attention_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "expert_dtype": "fp4",
        "hc_eps": 1e-6,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "head_dim": 512,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 512,
        "max_position_embeddings": 1048576,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": 64,
        "num_experts_per_tok": 6,
        "num_hash_layers": 3,
        "num_hidden_layers": 43,
        "num_key_value_heads": 1,
        "num_nextn_predict_layers": 1,
        "o_groups": 8,
        "o_lora_rank": 1024,
        "q_lora_rank": 1024,
        "qk_rope_head_dim": 64,
        "quantization_config": {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "quant_method": "fp8",
            "scale_fmt": "ue8m0",
            "weight_block_size": [128, 128],
        },
        "rms_norm_eps": 1e-6,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 16,
            "original_max_position_embeddings": 65536,
            "type": "yarn",
        },
        "rope_theta": 10000,
        "routed_scaling_factor": 1.5,
        "scoring_func": "sqrtsoftplus",
        "sliding_window": 128,
        "swiglu_limit": 10.0,
        "tie_word_embeddings": False,
        "topk_method": "noaux_tc",
        "vocab_size": 129280,
        "compress_rope_theta": 160000,
        "compress_ratios": [0, 0, *[4 if layer % 2 == 0 else 128 for layer in range(2, 43)], 0],
    }


def tiny_config() -> dict[str, Any]:
    """Every family of tensors, block edges that no extent meets, in a few hundred tensors."""
    return flash_config() | {
        "head_dim": 128,
        "hidden_size": 160,
        "index_n_heads": 2,
        "index_topk": 8,
        "moe_intermediate_size": 96,
        "n_routed_experts": 8,
        "num_attention_heads": 4,
        "num_hash_layers": 1,
        "num_hidden_layers": 4,
        "o_groups": 2,
        "o_lora_rank": 80,
        "q_lora_rank": 144,
        "sliding_window": 16,
        "vocab_size": 300,
        "compress_ratios": [0, 4, 16, 4, 0],
    }


class TensorSpec(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


def _fp8(name: str, rows: int, columns: int) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}.weight", "F8_E4M3", (rows, columns))
    yield TensorSpec(f"{name}.scale", "F8_E8M0", (-(-rows // 128), -(-columns // 128)))


def _fp4(name: str, rows: int, columns: int) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}.weight", "I8", (rows, columns // 2))
    yield TensorSpec(f"{name}.scale", "F8_E8M0", (rows, columns // 32))


def _compressor(name: str, dim: int, ratio: int, hidden: int) -> Iterator[TensorSpec]:
    width = 2 * dim if ratio == 4 else dim
    yield TensorSpec(f"{name}.ape", "F32", (ratio, width))
    yield TensorSpec(f"{name}.wkv.weight", "BF16", (width, hidden))
    yield TensorSpec(f"{name}.wgate.weight", "BF16", (width, hidden))
    yield TensorSpec(f"{name}.norm.weight", "BF16", (dim,))


def _hyper_connection(name: str, rows: int, scales: int, width: int) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{name}_fn", "F32", (rows, width))
    yield TensorSpec(f"{name}_base", "F32", (rows,))
    yield TensorSpec(f"{name}_scale", "F32", (scales,))


def _attention(name: str, config: dict[str, Any], ratio: int) -> Iterator[TensorSpec]:
    hidden, head, heads = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    query, output = config["q_lora_rank"], config["o_groups"] * config["o_lora_rank"]
    yield TensorSpec(f"{name}.attn_sink", "F32", (heads,))
    yield from _fp8(f"{name}.wq_a", query, hidden)
    yield TensorSpec(f"{name}.q_norm.weight", "BF16", (query,))
    yield from _fp8(f"{name}.wq_b", heads * head, query)
    yield from _fp8(f"{name}.wkv", head, hidden)
    yield TensorSpec(f"{name}.kv_norm.weight", "BF16", (head,))
    yield from _fp8(f"{name}.wo_a", output, heads * head // config["o_groups"])
    yield from _fp8(f"{name}.wo_b", hidden, output)
    if ratio:
        yield from _compressor(f"{name}.compressor", head, ratio, hidden)
    if ratio == 4:
        index_heads, index_dim = config["index_n_heads"], config["index_head_dim"]
        yield from _fp8(f"{name}.indexer.wq_b", index_heads * index_dim, query)
        yield TensorSpec(f"{name}.indexer.weights_proj.weight", "BF16", (index_heads, hidden))
        yield from _compressor(f"{name}.indexer.compressor", index_dim, 4, hidden)


def _block(name: str, config: dict[str, Any], ratio: int, hashed: bool) -> Iterator[TensorSpec]:
    hidden, inner, hc, experts = (config[key] for key in ("hidden_size", "moe_intermediate_size", "hc_mult", "n_routed_experts"))
    for part in ("attn", "ffn"):
        yield from _hyper_connection(f"{name}.hc_{part}", (2 + hc) * hc, 3, hc * hidden)
        yield TensorSpec(f"{name}.{part}_norm.weight", "BF16", (hidden,))
    yield from _attention(f"{name}.attn", config, ratio)
    yield TensorSpec(f"{name}.ffn.gate.weight", "BF16", (experts, hidden))
    if hashed:
        yield TensorSpec(f"{name}.ffn.gate.tid2eid", "I64", (config["vocab_size"], config["num_experts_per_tok"]))
    else:
        yield TensorSpec(f"{name}.ffn.gate.bias", "F32", (experts,))
    matrices = (("w1", inner, hidden), ("w2", hidden, inner), ("w3", inner, hidden))
    for matrix, rows, columns in matrices:
        for expert in range(experts):
            yield from _fp4(f"{name}.ffn.experts.{expert}.{matrix}", rows, columns)
        yield from _fp8(f"{name}.ffn.shared_experts.{matrix}", rows, columns)


def tensors(config: dict[str, Any]) -> Iterator[TensorSpec]:
    """Every tensor of the official layout, layers in order, then `mtp.*` as reference section 2 lists it."""
    vocab, hidden, hc = config["vocab_size"], config["hidden_size"], config["hc_mult"]
    yield TensorSpec("embed.weight", "BF16", (vocab, hidden))
    for layer in range(config["num_hidden_layers"]):
        yield from _block(f"layers.{layer}", config, config["compress_ratios"][layer], layer < config["num_hash_layers"])
    yield TensorSpec("norm.weight", "BF16", (hidden,))
    yield TensorSpec("head.weight", "BF16", (vocab, hidden))
    yield from _hyper_connection("hc_head", hc, 1, hc * hidden)
    for module in range(config["num_nextn_predict_layers"]):
        name = f"mtp.{module}"
        yield from _block(name, config, 0, hashed=False)
        yield from _fp8(f"{name}.e_proj", hidden, hidden)
        yield from _fp8(f"{name}.h_proj", hidden, hidden)
        for norm in ("enorm", "hnorm", "norm"):
            yield TensorSpec(f"{name}.{norm}.weight", "BF16", (hidden,))
        yield from _hyper_connection(f"{name}.hc_head", hc, 1, hc * hidden)


@dataclass
class Shard:
    """One sparse safetensors file: an editable header, and a payload of zeros that takes no disk."""

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    payload: int = 0

    @classmethod
    def read(cls, path: Path) -> Shard:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        return cls(path, header, path.stat().st_size - 8 - length)

    def add(self, spec: TensorSpec) -> None:
        end = self.payload + spec.nbytes
        self.header[spec.name] = {"dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [self.payload, end]}
        self.payload = end

    def write(self) -> None:
        """Write a new file; whatever shared the old one's data (a hard link) is left alone."""
        text = json.dumps(self.header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.path.unlink(missing_ok=True)
        with self.path.open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + self.payload)


def write_layout(directory: Path, config: dict[str, Any], shards: int) -> Path:
    """Write config, index and `shards` sparse files of about equal size, tensors in layer order."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    specs = list(tensors(config))
    total = sum(spec.nbytes for spec in specs)
    files = [Shard(directory / f"model-{number + 1:05d}-of-{shards:05d}.safetensors") for number in range(shards)]
    weight_map: dict[str, str] = {}
    written = 0
    for spec in specs:
        shard = files[min(written * shards // total, shards - 1)]
        shard.add(spec)
        weight_map[spec.name] = shard.path.name
        written += spec.nbytes
    for shard in files:
        shard.write()
    (directory / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    return directory


def write_flash(directory: Path) -> Path:
    """The official Flash layout: 46 shards, 69,187 tensors, 159,609,485,896 bytes of payload."""
    return write_layout(directory, flash_config(), FLASH_SHARDS)


def write_tiny(directory: Path) -> Path:
    return write_layout(directory, tiny_config(), 3)


def clone(source: Path, target: Path) -> Path:
    """A copy of hard links, for damage: every writer here replaces a file instead of writing into it."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        os.link(path, target / path.name)
    return target

"""Writes a trained decoder in the official checkpoint layout (reference page, section 2), and reads one back.

python -m training.export STATE.pt TOKENIZER.json OUT
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.formats import pack_fp4, pack_fp8, unpack_fp4, unpack_fp8
from training.geometry import Geometry, read_geometry
from training.model import Decoder

SHARD_BYTES = 15_500_000

Tensors = dict[str, Tensor]


def _linears(g: Geometry, layer: int) -> Iterator[tuple[str, str, bool]]:
    """(official name, module path, FP8?) of every plain linear of a layer."""
    p = f"layers.{layer}."
    for name in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b"):
        yield p + f"attn.{name}", p + f"attn.{name}", True
    compressors = (["compressor"] if g.ratios[layer] else []) + (["indexer.compressor"] if g.ratios[layer] == 4 else [])
    for compressor in compressors:
        yield from ((p + f"attn.{compressor}.{name}", p + f"attn.{compressor}.{name}", False) for name in ("wkv", "wgate"))
    if g.ratios[layer] == 4:
        yield p + "attn.indexer.wq_b", p + "attn.indexer.wq_b", True
        yield p + "attn.indexer.weights_proj", p + "attn.indexer.weights_proj", False
    yield p + "ffn.gate", p + "ffn.gate", False
    for name in ("w1", "w2", "w3"):
        yield p + f"ffn.shared_experts.{name}", p + f"ffn.shared_{name}", True


def _plain(g: Geometry) -> Iterator[tuple[str, str, torch.dtype]]:
    """(official name, parameter path, stored dtype) of every tensor that is neither a linear nor an expert."""
    bf16, f32 = torch.bfloat16, torch.float32
    yield from (("embed.weight", "embed", bf16), ("head.weight", "head", bf16), ("norm.weight", "norm", bf16))
    yield from ((f"hc_head_{n}", f"hc_head.{n}", f32) for n in ("fn", "base", "scale"))
    for layer, ratio in enumerate(g.ratios):
        p = f"layers.{layer}."
        for part in ("attn", "ffn"):
            yield p + f"{part}_norm.weight", p + f"{part}_norm", bf16
            yield from ((p + f"hc_{part}_{n}", p + f"hc_{part}.{n}", f32) for n in ("fn", "base", "scale"))
        yield p + "attn.attn_sink", p + "attn.attn_sink", f32
        yield p + "attn.q_norm.weight", p + "attn.q_norm", bf16
        yield p + "attn.kv_norm.weight", p + "attn.kv_norm", bf16
        for compressor in (["compressor"] if ratio else []) + (["indexer.compressor"] if ratio == 4 else []):
            yield p + f"attn.{compressor}.ape", p + f"attn.{compressor}.ape", f32
            yield p + f"attn.{compressor}.norm.weight", p + f"attn.{compressor}.norm", bf16
        routing = ("tid2eid", torch.int64) if layer < g.hash_layers else ("bias", f32)
        yield p + f"ffn.gate.{routing[0]}", p + f"ffn.{routing[0]}", routing[1]


def tensors(g: Geometry, state: Tensors) -> Tensors:
    """Official names to stored tensors, quantised, in file order (a weight next to its scale)."""
    out: Tensors = {name: state[path].to(dtype) for name, path, dtype in _plain(g)}
    for layer in range(g.layers):
        for name, path, fp8 in _linears(g, layer):
            weight = state[path + ".weight"]
            if fp8:
                out[name + ".weight"], out[name + ".scale"] = pack_fp8(weight)
            else:
                out[name + ".weight"] = weight.to(torch.bfloat16)
        w13, w2 = state[f"layers.{layer}.ffn.w13"], state[f"layers.{layer}.ffn.w2"]
        for expert in range(g.experts):
            for name, weight in (("w1", w13[expert, 0]), ("w2", w2[expert]), ("w3", w13[expert, 1])):
                path = f"layers.{layer}.ffn.experts.{expert}.{name}"
                out[path + ".weight"], out[path + ".scale"] = pack_fp4(weight)
    return {name: tensor.contiguous() for name, tensor in out.items()}


def write_checkpoint(g: Geometry, state: Tensors, directory: Path) -> int:
    """config.json, shards of at most SHARD_BYTES and the index. Returns the bytes of all tensors."""
    directory.mkdir(parents=True, exist_ok=True)
    shards: list[Tensors] = [{}]
    size = 0
    for name, tensor in tensors(g, state).items():
        if size + tensor.nbytes > SHARD_BYTES and not name.endswith(".scale"):
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, directory / file, metadata={"format": "pt"})
        where.update(dict.fromkeys(shard, file))
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, separators=(",", ":")) + "\n", encoding="utf-8")
    (directory / "config.json").write_text(json.dumps(g.config(), indent=1) + "\n", encoding="utf-8")
    return total


def read_checkpoint(directory: Path, device: str | torch.device = "cpu") -> Decoder:
    """A decoder on `device` with the dequantised weights of any checkpoint of this family in the official layout."""
    g = read_geometry(directory)
    stored: Tensors = {}
    for file in sorted(directory.glob("model-*.safetensors")):
        stored.update(load_file(file, device=str(device)))

    def weight(name: str) -> Tensor:
        tensor = stored[name + ".weight"]
        if tensor.dtype == torch.int8:
            return unpack_fp4(tensor, stored[name + ".scale"])
        if tensor.dtype == torch.float8_e4m3fn:
            return unpack_fp8(tensor, stored[name + ".scale"])
        return tensor.float()

    state: Tensors = {path: stored[name].long() if "tid2eid" in name else stored[name].float() for name, path, _ in _plain(g)}
    for layer in range(g.layers):
        state.update((path + ".weight", weight(name)) for name, path, _ in _linears(g, layer))
        experts = [f"layers.{layer}.ffn.experts.{expert}." for expert in range(g.experts)]
        state[f"layers.{layer}.ffn.w13"] = torch.stack([torch.stack([weight(e + "w1"), weight(e + "w3")]) for e in experts])
        state[f"layers.{layer}.ffn.w2"] = torch.stack([weight(e + "w2") for e in experts])
    model = Decoder(g).to(device)
    model.load_state_dict(state)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    saved = torch.load(arguments.state, map_location="cpu", weights_only=True)
    total = write_checkpoint(Geometry(**saved["geometry"]), saved["model"], arguments.out)
    shutil.copy(arguments.tokenizer, arguments.out / "tokenizer.json")
    print(f"{total} bytes of tensors in {arguments.out}")


if __name__ == "__main__":
    main()

"""Checkpoints of real geometry for measurements: `python -m benchmarks.synthetic DIRECTORY [--layers 3] [--experts 32]`.

Flash's shapes in the official FP4/FP8 layout (tests/kernels/layouts.py). Random ones have few layers and well-scaled weights:
normal deviates as the format's quantisation would leave them. The full-size one is sparse: zeros that take no disk, but for what
decides where a token goes and what would slow zeros down (see write_zero_flash).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from layouts import INDEX, Shard, TensorSpec, flash_config, tensors, write_flash, write_layout
from oracle.formats import bf16_bits, encode_e2m1, encode_e4m3, round_bf16

CHUNK = 1 << 24
"""Elements drawn at a time."""

FP4_DEVIATION, FP8_DEVIATION = 2.0, 100.0
"""Standard deviation of a quantised normal matrix in units of its scale; the largest codes are three and more of them."""

PLAIN_SCALE = 127 - 8
"""E8M0 code of 2^-8, for matrices of zeros."""


def write_random_flash(directory: Path, *, layers: int, experts: int, vocabulary: int = 4096, seed: int = 0) -> Path:
    """A few layers of the Flash geometry: windowed, then compressed by 4 and by 128 in turn; the first one routes by token."""
    config = flash_config() | {
        "num_hidden_layers": layers,
        "n_routed_experts": experts,
        "vocab_size": vocabulary,
        "num_hash_layers": 1,
        "num_nextn_predict_layers": 0,
        "compress_ratios": [0, *(4 if layer % 2 else 128 for layer in range(1, layers))],
    }
    write_layout(directory, config, layers)
    generator = np.random.default_rng(seed)
    specs = {spec.name: spec for spec in tensors(config)}
    _fill(directory, specs, list(specs), lambda spec: _random(generator, spec, specs, config))
    return directory


def write_zero_flash(directory: Path, *, seed: int = 0) -> Path:
    """The whole Flash layout, 160 GB, as sparse zeros.

    Router biases and the tables of hash layers are random, so that each layer chooses experts of its own; streams stay zero, and
    every token chooses alike. Scales of what a token reads are 2^-8: code 0 is a subnormal, which some CPUs multiply slowly.
    """
    write_flash(directory)
    config = flash_config()
    specs = {spec.name: spec for spec in tensors(config) if not spec.name.startswith("mtp.")}
    generator = np.random.default_rng(seed)
    chosen: dict[int, npt.NDArray[np.integer[Any]]] = {}

    def routing(spec: TensorSpec) -> Iterator[npt.NDArray[Any]]:
        layer = int(spec.name.split(".")[1])
        for values in _random(generator, spec, specs, config):
            first = values[0] if spec.dtype == "I64" else np.argsort(-values)[: config["num_experts_per_tok"]]
            chosen.setdefault(layer, first)
            yield values

    routers = [name for name in specs if name.endswith(("gate.bias", "gate.tid2eid"))]
    _fill(directory, specs, routers, routing)
    read = {f"layers.{layer}.ffn.experts.{expert}." for layer, experts in chosen.items() for expert in experts}
    scales = [
        name
        for name in specs
        if name.endswith(".scale") and (".experts." not in name or ".".join(name.split(".")[:5]) + "." in read)
    ]
    _fill(directory, specs, scales, lambda spec: iter([np.full(math.prod(spec.shape), PLAIN_SCALE, np.uint8)]))
    return directory


def token_bytes(config: dict[str, Any]) -> tuple[int, int]:
    """Bytes of weights that one token reads: (all but routed experts, routed experts). Of embedding and hash tables, one row."""
    share = {"embed.weight": 1 / config["vocab_size"], "tid2eid": 1 / config["vocab_size"]}
    dense = routed = 0.0
    for spec in tensors(config):
        if spec.name.startswith("mtp."):
            continue
        if ".ffn.experts." in spec.name:
            routed += spec.nbytes * config["num_experts_per_tok"] / config["n_routed_experts"]
        else:
            dense += spec.nbytes * next((part for name, part in share.items() if spec.name.endswith(name)), 1)
    return round(dense), round(routed)


def _fill(directory: Path, specs: dict[str, TensorSpec], names: list[str], draw: Any) -> None:
    """Write the drawn chunks of each named tensor over the zeros of the layout's files."""
    weight_map = json.loads((directory / INDEX).read_text())["weight_map"]
    for file in sorted(set(weight_map.values())):
        shard = Shard.read(directory / file)
        begin = shard.path.stat().st_size - shard.payload
        with shard.path.open("r+b") as out:
            for name in names:
                if weight_map[name] != file:
                    continue
                out.seek(begin + shard.header[name]["data_offsets"][0])
                for values in draw(specs[name]):
                    out.write(np.ascontiguousarray(values).tobytes())


def _random(
    generator: np.random.Generator, spec: TensorSpec, specs: dict[str, TensorSpec], config: dict[str, Any]
) -> Iterator[npt.NDArray[Any]]:
    """The tensor's elements as stored, in chunks."""
    count = math.prod(spec.shape)
    if spec.dtype in ("I8", "F8_E4M3"):
        table = _fp4_pairs() if spec.dtype == "I8" else _fp8_codes()
        for begin in range(0, count, CHUNK):
            yield table[generator.integers(0, 1 << 16, min(CHUNK, count - begin), np.uint16)]
    elif spec.dtype == "F8_E8M0":
        weight = specs[spec.name.removesuffix("scale") + "weight"]
        fp4 = weight.dtype == "I8"
        columns = weight.shape[1] * (2 if fp4 else 1)
        middle = round(math.log2(1.5 / math.sqrt(columns) / (FP4_DEVIATION if fp4 else FP8_DEVIATION)))
        yield (127 + middle + generator.integers(-1, 1, count, endpoint=True)).astype(np.uint8)
    elif spec.dtype == "I64":
        k, experts = config["num_experts_per_tok"], config["n_routed_experts"]
        rows = (spec.shape[0], 1)
        first, stride = generator.integers(0, experts, rows), generator.integers(1, experts // k, rows, endpoint=True)
        yield (first + stride * np.arange(k)) % experts
    else:
        for begin in range(0, count, CHUNK):
            values = _plain(generator, spec, min(CHUNK, count - begin))
            yield bf16_bits(round_bf16(values)) if spec.dtype == "BF16" else values.astype(np.float32)


def _plain(generator: np.random.Generator, spec: TensorSpec, count: int) -> npt.NDArray[np.float64]:
    """Elements of an unquantised tensor."""
    values = generator.standard_normal(count)
    if spec.name.endswith("norm.weight"):
        return 1 + 0.2 * values
    if spec.name.endswith("_scale"):
        return np.full(count, 1.0)
    if spec.name.endswith(("_base", "gate.bias")):
        return 0.5 * values
    if len(spec.shape) == 2 and not spec.name.endswith(("embed.weight", "ape")):
        return values * (2 / math.sqrt(spec.shape[1]))
    return values


def _quantiles(count: int) -> npt.NDArray[np.float64]:
    """Deviates at the middles of `count` equal parts of the normal distribution, by Newton's method on its integral."""
    share = (np.arange(count) + 0.5) / count
    x = np.zeros(count)
    for _ in range(60):
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        x -= np.clip((np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x]) - share) / density, -0.5, 0.5)
    return x


@cache
def _fp8_codes() -> npt.NDArray[np.uint8]:
    """Sixteen random bits -> E4M3 code of a normal deviate."""
    codes: npt.NDArray[np.uint8] = encode_e4m3(np.clip(np.repeat(_quantiles(4096), 16) * FP8_DEVIATION, -448, 448))
    return codes


@cache
def _fp4_pairs() -> npt.NDArray[np.uint8]:
    """Sixteen random bits -> two E2M1 codes of normal deviates, eight bits each."""
    nibble = encode_e2m1(np.clip(_quantiles(256) * FP4_DEVIATION, -6, 6))
    bits = np.arange(1 << 16)
    pairs: npt.NDArray[np.uint8] = nibble[bits & 255] | (nibble[bits >> 8] << np.uint8(4))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--experts", type=int, default=32, help="256 of them take 3.4 GB a layer")
    parser.add_argument("--zeros", action="store_true", help="the full geometry, sparse")
    options = parser.parse_args()
    if options.zeros:
        write_zero_flash(options.directory)
    else:
        write_random_flash(options.directory, layers=options.layers, experts=options.experts)


if __name__ == "__main__":
    main()

"""Checkpoints in the official layout, written and read without any safetensors library (reference section 2)."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oracle.formats import F64, dequantise_fp4, dequantise_fp8, from_bf16_bits
from oracle.geometry import Dtype, Geometry

STORAGE = {"F32": np.float32, "I64": np.int64, "BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E8M0": np.uint8, "I8": np.uint8}
"""safetensors dtype tag -> numpy type that holds its bytes."""


class Stored(NamedTuple):
    """One tensor as it lies in a file; `data` holds the raw elements, nibbles packed two a byte."""

    tag: str
    data: npt.NDArray[Any]


Tensors = dict[str, Stored]


def write_shard(path: Path, tensors: Mapping[str, Stored]) -> None:
    """Write one safetensors file; wide elements first, so that every tensor is aligned."""
    names = sorted(tensors, key=lambda name: (-tensors[name].data.itemsize, name))
    header: dict[str, Any] = {}
    end = 0
    for name in names:
        tag, data = tensors[name]
        header[name] = {"dtype": tag, "shape": list(data.shape), "data_offsets": [end, end + data.nbytes]}
        end += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(np.ascontiguousarray(tensors[name].data).tobytes())


def write_checkpoint(directory: Path, geometry: Geometry, dtype: Dtype, tensors: Mapping[str, Stored], shards: int = 3) -> Path:
    """Write config, index and shards. Layers spread evenly, so a weight lies beside its scale; mtp.* goes last."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(geometry.config(dtype), indent=1))

    def shard(name: str) -> int:
        if name.startswith("layers."):
            return int(name.split(".")[1]) * shards // geometry.num_hidden_layers
        return shards - 1 if name.startswith("mtp") else 0

    weight_map: dict[str, str] = {}
    for index in range(shards):
        file = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in sorted(tensors) if shard(name) == index}
        write_shard(directory / file, part)
        weight_map.update(dict.fromkeys(part, file))
    total = sum(stored.data.nbytes for stored in tensors.values())
    contents = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(contents, indent=1))
    return directory


def read_checkpoint(directory: Path) -> Tensors:
    """Every tensor of a checkpoint, mtp.* left out."""
    weight_map = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    tensors: Tensors = {}
    for file in sorted(set(weight_map.values())):
        data = (directory / file).read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        payload = memoryview(data)[8 + length :]
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name == "__metadata__" or name.startswith("mtp."):
                continue
            begin, end = entry["data_offsets"]
            elements = np.frombuffer(payload[begin:end], STORAGE[entry["dtype"]])
            tensors[name] = Stored(entry["dtype"], elements.reshape(entry["shape"]))
    return tensors


def dequantise(tensors: Mapping[str, Stored], name: str) -> npt.NDArray[Any]:
    """A tensor's values: FP32, or int64 for a table. Scales are found beside the weight; the tag alone selects the format."""
    tag, data = tensors[name]
    if tag == "BF16":
        return from_bf16_bits(data)
    if tag in ("F32", "I64"):
        return data
    scale = tensors[name.removesuffix("weight") + "scale"].data
    return dequantise_fp4(data, scale) if tag == "I8" else dequantise_fp8(data, scale)


def sha256(tensors: Mapping[str, Stored]) -> str:
    """Digest of names, tags, shapes and bytes; says whether a regenerated checkpoint is the one the vectors came from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tag, data = tensors[name]
        digest.update(f"{name} {tag} {data.shape}\n".encode() + np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()


class Weights:
    """Dequantised weights by official name, widened to float64 when first used."""

    def __init__(self, tensors: Mapping[str, Stored]) -> None:
        self._tensors = tensors
        self._values: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> F64:
        if name not in self._values:
            self._values[name] = dequantise(self._tensors, name).astype(np.float64)
        return self._values[name]

    def quantised(self, name: str) -> bool:
        """Whether a linear with this weight quantises its input in the official path."""
        return self._tensors[name].tag in ("F8_E4M3", "I8")

    def expert_table(self, name: str) -> npt.NDArray[np.int64]:
        """Hash-layer table [V,k] of expert ids."""
        return self._tensors[name].data.astype(np.int64)

"""Ways in which a checkpoint directory can be damaged, and what the first error must then say.

    python tests/kernels/damages.py DIRECTORY [--geometry flash|tiny] [--damage NAME]

writes a whole or damaged directory, e.g. for `runner doctor --checkpoint DIRECTORY`.
"""

from __future__ import annotations

import argparse
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from layouts import INDEX, Shard, TensorSpec, write_flash, write_tiny


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.unlink()
    path.write_text(json.dumps(document))


def shard_of(directory: Path, tensor: str) -> Shard:
    return Shard.read(directory / json.loads((directory / INDEX).read_text())["weight_map"][tensor])


class Fault(NamedTuple):
    """What the first error of a damaged directory must say: its file's name, its key, and a part of what was found."""

    file: str
    key: str
    found: str


TARGET = "layers.2.attn.wkv.weight"


def _missing_shard(directory: Path) -> Fault:
    path = shard_of(directory, TARGET).path
    path.unlink()
    return Fault(path.name, "", "no such file")


def _truncated_shard(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.payload -= 1
    shard.write()
    return Fault(shard.path.name, "", "(truncated)")


def _overlapping_offsets(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    entry = shard.header[TARGET]
    entry["data_offsets"] = [offset - 1 for offset in entry["data_offsets"]]
    shard.write()
    return Fault(shard.path.name, TARGET, "overlaps")


def _gap_between_tensors(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    del shard.header[TARGET]
    shard.write()
    edit_json(directory / INDEX, lambda index: index["weight_map"].pop(TARGET))
    return Fault(shard.path.name, "layers.2.attn.wkv.scale", "to no tensor")


def _out_of_range_offsets(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    entry = shard.header[TARGET]
    entry["data_offsets"] = [offset + shard.payload for offset in entry["data_offsets"]]
    shard.write()
    return Fault(shard.path.name, TARGET, "data_offsets")


def _wrong_extent(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.header[TARGET]["shape"][0] -= 1
    shard.write()
    return Fault(shard.path.name, TARGET, "bytes in data_offsets")


def _wrong_shape(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.header[TARGET]["shape"].reverse()
    shard.write()
    rows, columns = shard.header[TARGET]["shape"]
    return Fault(shard.path.name, TARGET, f"F8_E4M3 [{rows}, {columns}]")


def _wrong_dtype(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.header[TARGET]["dtype"] = "U8"
    shard.write()
    return Fault(shard.path.name, TARGET, "U8")


def _unknown_tensor(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.add(TensorSpec("layers.2.attn.wkv.bias", "BF16", (8,)))
    shard.write()

    def list_it(index: dict[str, Any]) -> None:
        index["weight_map"]["layers.2.attn.wkv.bias"] = shard.path.name
        index["metadata"]["total_size"] += 16

    edit_json(directory / INDEX, list_it)
    return Fault(shard.path.name, "layers.2.attn.wkv.bias", "unknown tensor")


def _unlisted_tensor(directory: Path) -> Fault:
    edit_json(directory / INDEX, lambda index: index["weight_map"].pop(TARGET))
    return Fault(shard_of(directory, "layers.2.attn.wkv.scale").path.name, TARGET, "the index does not list")


def _missing_tensor(directory: Path) -> Fault:
    shard = shard_of(directory, TARGET)
    shard.header["mtp.9.stand_in"] = shard.header.pop(TARGET)
    shard.write()
    edit_json(directory / INDEX, lambda index: index["weight_map"].update({"mtp.9.stand_in": index["weight_map"].pop(TARGET)}))
    return Fault(INDEX, TARGET, "no such tensor")


def _wrong_shard_in_index(directory: Path) -> Fault:
    def send_elsewhere(index: dict[str, Any]) -> None:
        index["weight_map"][TARGET] = index["weight_map"]["embed.weight"]

    if shard_of(directory, TARGET).path == shard_of(directory, "embed.weight").path:
        raise ValueError("the target must not lie in the first shard")
    edit_json(directory / INDEX, send_elsewhere)
    return Fault(INDEX, f"weight_map.{TARGET}", "model-00001-of-")


def _listed_tensor_absent(directory: Path) -> Fault:
    edit_json(directory / INDEX, lambda index: index["weight_map"].update({"mtp.9.ghost": index["weight_map"][TARGET]}))
    return Fault(INDEX, "weight_map.mtp.9.ghost", "does not hold it")


def _wrong_total_size(directory: Path) -> Fault:
    edit_json(directory / INDEX, lambda index: index["metadata"].update(total_size=index["metadata"]["total_size"] - 1))
    return Fault(INDEX, "metadata.total_size", "integer")


def _path_in_index(directory: Path) -> Fault:
    edit_json(directory / INDEX, lambda index: index["weight_map"].update({TARGET: "../elsewhere.safetensors"}))
    return Fault(INDEX, f"weight_map.{TARGET}", "../elsewhere.safetensors")


def _bad_header_json(directory: Path) -> Fault:
    path = shard_of(directory, TARGET).path
    text = b'{"a":{"dtype":"F32" "shape":[1]}}'
    path.unlink()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    return Fault(path.name, "byte 28", "'\"'")


def _bad_index_json(directory: Path) -> Fault:
    text = (directory / INDEX).read_bytes()
    (directory / INDEX).unlink()
    (directory / INDEX).write_bytes(text[:-1])
    return Fault(INDEX, f"byte {len(text) - 1}", "the end of the text")


def _absurd_header_length(directory: Path) -> Fault:
    path = shard_of(directory, TARGET).path
    path.unlink()
    path.write_bytes(struct.pack("<Q", 0xFFFF_FFFF_FFFF_FFF8) + b"{}")
    return Fault(path.name, "header length", "18446744073709551608 bytes")


def _missing_config(directory: Path) -> Fault:
    (directory / "config.json").unlink()
    return Fault("config.json", "", "no such file")


def _missing_index(directory: Path) -> Fault:
    (directory / INDEX).unlink()
    return Fault(INDEX, "", "no such file")


def _float32_scale(directory: Path) -> Fault:
    scale = "layers.2.attn.wkv.scale"
    shard = shard_of(directory, scale)
    fresh = Shard(shard.path)
    for name, entry in shard.header.items():
        fresh.add(TensorSpec(name, "F32" if name == scale else entry["dtype"], tuple(entry["shape"])))
    fresh.write()
    edit_json(directory / INDEX, lambda index: index["metadata"].pop("total_size"))
    return Fault(shard.path.name, scale, "F32 scale")


DAMAGES: dict[str, Callable[[Path], Fault]] = {
    function.__name__.strip("_").replace("_", "-"): function
    for function in (
        _missing_shard,
        _truncated_shard,
        _overlapping_offsets,
        _gap_between_tensors,
        _out_of_range_offsets,
        _wrong_extent,
        _wrong_shape,
        _wrong_dtype,
        _unknown_tensor,
        _unlisted_tensor,
        _missing_tensor,
        _wrong_shard_in_index,
        _listed_tensor_absent,
        _wrong_total_size,
        _path_in_index,
        _bad_header_json,
        _bad_index_json,
        _absurd_header_length,
        _missing_config,
        _missing_index,
        _float32_scale,
    )
}
"""Damage by name: each changes a directory and returns what the first error must say."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--geometry", choices=["flash", "tiny"], default="flash")
    parser.add_argument("--damage", choices=sorted(DAMAGES))
    options = parser.parse_args()
    write = write_flash if options.geometry == "flash" else write_tiny
    write(options.directory)
    if options.damage:
        fault = DAMAGES[options.damage](options.directory)
        print(f"expect an error in {fault.file}, key {fault.key!r}, found ...{fault.found}...")


if __name__ == "__main__":
    main()

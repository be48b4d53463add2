"""kernels.Checkpoint over sparse directories in the official layout."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from damages import DAMAGES, Fault, edit_json, shard_of
from layouts import (
    FLASH_BYTES,
    FLASH_SHARDS,
    FLASH_TENSORS,
    INDEX,
    Shard,
    TensorSpec,
    clone,
    tensors,
    tiny_config,
    write_flash,
    write_tiny,
)

import kernels

TABLE = "layers.0.ffn.gate.tid2eid"
ISSUE_LIST = (
    "missing-shard",
    "truncated-shard",
    "overlapping-offsets",
    "out-of-range-offsets",
    "wrong-shape",
    "wrong-dtype",
    "unknown-tensor",
)


@pytest.fixture(scope="session")
def flash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flash(tmp_path_factory.mktemp("flash") / "checkpoint")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "checkpoint")


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return clone(tiny, tmp_path / "copy")


def refusal(directory: Path) -> kernels.CheckpointError:
    with pytest.raises(kernels.CheckpointError) as caught:
        kernels.Checkpoint.open(directory)
    return caught.value


def check_refused(directory: Path, fault: Fault) -> None:
    error = refusal(directory)
    assert Path(error.file) == directory / fault.file
    assert error.key == fault.key
    assert fault.found in error.found


def replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def test_flash_counts_are_the_released_ones(flash: Path) -> None:
    checkpoint = kernels.Checkpoint.open(flash)
    assert checkpoint.tensor_count == FLASH_TENSORS
    assert checkpoint.total_bytes == FLASH_BYTES
    assert len(checkpoint.shards) == FLASH_SHARDS


def test_flash_tensors_are_counted_by_dtype(flash: Path) -> None:
    checkpoint = kernels.Checkpoint.open(flash)
    assert checkpoint.skipped_tensor_count == 1575
    # 44 blocks with 256 experts of three matrices are FP4; each of these and of the FP8 matrices has a scale.
    assert checkpoint.dtype_counts["I8"] == 44 * 256 * 3
    assert checkpoint.dtype_counts["F8_E8M0"] == checkpoint.dtype_counts["I8"] + checkpoint.dtype_counts["F8_E4M3"]
    assert checkpoint.dtype_counts["I64"] == 3
    assert sum(checkpoint.dtype_counts.values()) == FLASH_TENSORS


def test_flash_opens_in_well_under_a_gibibyte(flash: Path) -> None:
    code = (
        "import resource, sys, kernels\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "kernels.Checkpoint.open(sys.argv[1])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(flash)], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 256 * 1024  # KiB


def test_flash_state_has_the_published_size(flash: Path) -> None:
    """Study 2.4.3: 5,883,008 values at position 3."""
    assert kernels.state_value_count(kernels.Checkpoint.open(flash).config, 3) == 5_883_008


def test_flash_config_is_read(flash: Path) -> None:
    config = kernels.Checkpoint.open(flash).config
    assert config.compress_ratios == (0, 0, *[4, 128] * 20, 4)
    assert (config.hidden_size, config.n_routed_experts, config.num_experts_per_tok) == (4096, 256, 6)
    assert (config.yarn_factor, config.yarn_original_max_position_embeddings) == (16.0, 65536)


@pytest.mark.parametrize("name", ISSUE_LIST)
def test_damage_to_flash_is_named(flash: Path, tmp_path: Path, name: str) -> None:
    directory = clone(flash, tmp_path / "copy")
    check_refused(directory, DAMAGES[name](directory))


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_damage_is_named(copy: Path, name: str) -> None:
    check_refused(copy, DAMAGES[name](copy))


def test_tiny_layout_opens(tiny: Path) -> None:
    checkpoint = kernels.Checkpoint.open(tiny)
    specs = list(tensors(tiny_config()))
    assert checkpoint.tensor_count == len(specs)
    assert checkpoint.skipped_tensor_count == sum(spec.name.startswith("mtp.") for spec in specs)
    assert checkpoint.total_bytes == sum(spec.nbytes for spec in specs)


def test_shards_are_sorted_with_their_lengths(tiny: Path) -> None:
    expected = sorted((path.name, path.stat().st_size) for path in tiny.glob("*.safetensors"))
    assert kernels.Checkpoint.open(tiny).shards == expected


def test_embedded_checkpoint_opens() -> None:
    checkpoint = kernels.Checkpoint.open(kernels.builtin_checkpoint())
    assert checkpoint.tensor_count == 2733
    assert checkpoint.skipped_tensor_count == 0


def test_directory_may_be_text_or_path(tiny: Path) -> None:
    assert kernels.Checkpoint.open(str(tiny)).identity == kernels.Checkpoint.open(tiny).identity


def test_error_is_one_line_of_its_parts(copy: Path) -> None:
    DAMAGES["wrong-shape"](copy)
    error = refusal(copy)
    assert isinstance(error, kernels.KernelError)
    assert str(error) == f"{error.file}: {error.key}: found {error.found}, allowed: {error.allowed}"
    assert "\n" not in str(error)


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none")
    assert error.found == "no such directory"


def test_identity_depends_on_no_path(tiny: Path, copy: Path) -> None:
    assert kernels.Checkpoint.open(copy).identity == kernels.Checkpoint.open(tiny).identity


def test_identity_covers_the_config(tiny: Path, copy: Path) -> None:
    edit_json(copy / "config.json", lambda config: config.update(swiglu_limit=9.0))
    assert kernels.Checkpoint.open(copy).identity != kernels.Checkpoint.open(tiny).identity


def test_identity_covers_the_tokenizer(copy: Path) -> None:
    identities = set()
    for text in (None, b"{}", b"{ }"):
        if text is not None:
            (copy / "tokenizer.json").write_bytes(text)
        identities.add(kernels.Checkpoint.open(copy).identity)
    assert len(identities) == 3


def test_identity_covers_the_index(tiny: Path, copy: Path) -> None:
    edit_json(copy / INDEX, lambda index: index["metadata"].update(note="x"))
    assert kernels.Checkpoint.open(copy).identity != kernels.Checkpoint.open(tiny).identity


def test_identity_covers_headers(tiny: Path, copy: Path) -> None:
    shard = shard_of(copy, "norm.weight")
    shard.header["__metadata__"] = {"note": "x"}
    shard.write()
    assert kernels.Checkpoint.open(copy).identity != kernels.Checkpoint.open(tiny).identity


def test_payload_is_covered_by_the_content_digest_only(tiny: Path, copy: Path) -> None:
    path = shard_of(copy, "norm.weight").path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    replace(path, bytes(data))
    changed, whole = kernels.Checkpoint.open(copy), kernels.Checkpoint.open(tiny)
    assert changed.identity == whole.identity
    assert changed.content_digest() != whole.content_digest()


def test_single_file_needs_no_index(tiny: Path, tmp_path: Path) -> None:
    directory = tmp_path / "single"
    directory.mkdir()
    (directory / "config.json").write_bytes((tiny / "config.json").read_bytes())
    shard = Shard(directory / "model.safetensors")
    for spec in tensors(tiny_config()):
        shard.add(spec)
    shard.write()
    assert kernels.Checkpoint.open(directory).total_bytes == kernels.Checkpoint.open(tiny).total_bytes


def test_files_replaced_after_opening_change_nothing(copy: Path) -> None:
    checkpoint = kernels.Checkpoint.open(copy)
    before = checkpoint.content_digest()
    for path in list(copy.iterdir()):
        replace(path, b"gone")
    assert checkpoint.content_digest() == before


def test_missing_compress_ratios_are_not_invented(copy: Path) -> None:
    edit_json(copy / "config.json", lambda config: config.pop("compress_ratios"))
    error = refusal(copy)
    assert (Path(error.file).name, error.key, error.found) == ("config.json", "compress_ratios", "nothing")


def test_float32_storage_opens(tmp_path: Path) -> None:
    """Checkpoints without quantisation store each matrix as it is, without a scale."""
    directory = write_tiny(tmp_path / "float32")
    for path in sorted(directory.glob("*.safetensors")):
        old, new = Shard.read(path), Shard(path)
        for name, entry in old.header.items():
            if name.endswith(".scale"):
                continue
            rows = entry["shape"]
            shape = (rows[0], rows[1] * 2) if entry["dtype"] == "I8" else tuple(rows)
            dtype = entry["dtype"] if entry["dtype"] == "I64" else "F32"
            new.add(TensorSpec(name, dtype, shape))
        new.write()

    def without_scales(index: dict[str, dict[str, object]]) -> None:
        index["metadata"] = {}
        index["weight_map"] = {name: file for name, file in index["weight_map"].items() if not name.endswith(".scale")}

    edit_json(directory / INDEX, without_scales)
    assert set(kernels.Checkpoint.open(directory).dtype_counts) == {"F32", "I64"}


def test_hash_table_with_a_bad_expert_is_refused_when_used(tmp_path: Path) -> None:
    """Values are payload, which opening doesn't read."""
    directory = shutil.copytree(kernels.builtin_checkpoint(), tmp_path / "copy")
    shard = shard_of(directory, TABLE)
    data = bytearray(shard.path.read_bytes())
    at = len(data) - shard.payload + shard.header[TABLE]["data_offsets"][0]
    data[at : at + 8] = struct.pack("<q", 32)
    replace(shard.path, bytes(data))
    decoder = kernels.Decoder(kernels.Checkpoint.open(directory))
    assert decoder.step([kernels.Row(decoder.new_state(), [1])])
    with pytest.raises(kernels.CheckpointError) as caught:
        decoder.step([kernels.Row(decoder.new_state(), [0])])
    assert caught.value.key.startswith(f"{TABLE}[0]")

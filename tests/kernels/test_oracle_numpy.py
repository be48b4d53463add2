"""The numpy decoder and its formats, by themselves: what is right here is what the C++ decoder is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracle import checkpoint_files, formats
from oracle.cases import Case, random_case, short, trace
from oracle.geometry import DTYPES, FULL, SMALL, Dtype, Geometry
from oracle.lockstep import CAPTURES, Lockstep, Seen
from oracle.make_vectors import STREAM_POSITIONS, VECTORS, numpy_run
from oracle.step_decoder import F64, StepDecoder
from oracle.step_state import SequenceState, value_count

FLASH = Geometry(
    vocab_size=129280,
    hidden_size=4096,
    num_attention_heads=64,
    head_dim=512,
    sliding_window=128,
    compress_ratios=(0, 0, *[4, 128] * 20, 4),
    index_n_heads=64,
    index_topk=512,
)


def test_fp4_rounds_ties_to_the_even_code() -> None:
    """Reference section 3."""
    codes = formats.encode_e2m1(np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0, 7.0]))
    assert formats.decode_e2m1(codes).tolist() == [0, 1, 1, 2, 2, 4, 4, -4, 6]


def test_fp8_encodes_every_value_as_itself_and_ties_as_the_even_code() -> None:
    codes = np.array([code for code in range(256) if code & 0x7F != 0x7F], np.uint8)
    assert np.array_equal(formats.encode_e4m3(formats.decode_e4m3(codes)), codes)
    middle = (formats.E4M3[1:] + formats.E4M3[:-1]) / 2
    assert not np.any(formats.encode_e4m3(middle) & 1)


@pytest.mark.parametrize(("largest", "exponent"), [(448.0, 0), (448.5, 1), (224.0, -1), (0.0, -22)])
def test_activation_scale_is_the_least_power_of_two_that_fits(largest: float, exponent: int) -> None:
    """Reference section 3, the floor of 1e-4 included."""
    assert formats.scale_exponent(largest, 448, 1e-4) == exponent


def test_bf16_rounds_ties_to_even_and_keeps_infinity() -> None:
    low = 2.0**-8  # half a step at 1
    assert formats.round_bf16([1 + low, 1 + 3 * low, -1 - low, np.inf]).tolist() == [1, 1 + 4 * low, -1, np.inf]


def test_quantised_matrices_come_back_within_half_a_step() -> None:
    """Ragged FP8 edge blocks, and FP4 nibbles low first (reference section 3)."""
    weight = np.random.default_rng(7).standard_normal((130, 160))
    single = formats.dequantise_fp8(*formats.quantise_fp8(weight))
    assert np.abs(single - weight).max() <= np.abs(weight).max() / 16
    packed, scales = formats.quantise_fp4(np.tile([6.0, -0.5], 16)[None])
    assert packed.tolist() == [[0x97] * 16]
    assert formats.dequantise_fp4(packed, scales).tolist() == [[6.0, -0.5] * 16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_seed_gives_the_committed_checkpoint(small: Callable[[Dtype], Case], dtype: Dtype) -> None:
    """Fails where numpy draws other numbers than when the vectors were made; then make them anew."""
    assert checkpoint_files.sha256(small(dtype).tensors) == str(np.load(VECTORS / f"small_{dtype}.npz")["checkpoint"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_read_back_as_they_were_written(small: Callable[[Dtype], Case], dtype: Dtype) -> None:
    case = small(dtype)
    read = checkpoint_files.read_checkpoint(case.directory)
    kept = {name: stored for name, stored in case.tensors.items() if not name.startswith("mtp.")}
    assert checkpoint_files.sha256(read) == checkpoint_files.sha256(kept)
    assert Geometry.of_checkpoint(case.directory) == SMALL


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_arithmetic_is_the_function_that_transformers_computes(small: Callable[[Dtype], Case], dtype: Dtype) -> None:
    vectors = np.load(VECTORS / f"small_{dtype}.npz")
    run = numpy_run(SMALL, small(dtype).weights, vectors["ids"][:-1].tolist(), official=False)
    assert np.abs(run["logits"] - vectors["transformers_logits"]).max() < 1e-10
    assert np.array_equal(run["routes"], vectors["exact_routes"])
    assert np.array_equal(run["index_rows"], vectors["exact_index_rows"])
    assert np.abs(run["streams"][list(STREAM_POSITIONS)] - vectors["exact_streams"]).max() < 1e-5


@pytest.mark.parametrize("dtype", ["bf16", "fp4fp8"])
def test_official_rounding_gives_the_committed_bits(small: Callable[[Dtype], Case], dtype: Dtype) -> None:
    vectors = np.load(VECTORS / f"small_{dtype}.npz")
    run = numpy_run(SMALL, small(dtype).weights, vectors["ids"][:-1].tolist(), official=True)
    assert np.array_equal(formats.bf16_bits(run["streams"][:, 0]), vectors["official_layer0_streams"])
    assert np.array_equal(formats.bf16_bits(run["streams"][list(STREAM_POSITIONS)]), vectors["official_streams"])
    assert np.array_equal(run["routes"], vectors["official_routes"])
    assert np.array_equal(run["index_rows"], vectors["official_index_rows"])
    assert np.abs(run["logits"] - vectors["official_logits"]).max() < 1e-5


def test_state_of_flash_at_position_3_has_the_published_count() -> None:
    """Reference section 11: 5,883,008 values."""
    assert value_count(FLASH, 3) == 5_883_008


@pytest.mark.parametrize("length", [1, 3, 4, 9, 16])
def test_state_has_the_counted_size_and_survives_a_round_trip(small: Callable[[Dtype], Case], length: int) -> None:
    case = small("bf16")
    decoder = StepDecoder(SMALL, case.weights, official=True)
    for token in case.tokens(length):
        decoder.step(token)
    values = decoder.state.values()
    assert values.size == value_count(SMALL, length - 1)
    assert SequenceState.of_values(SMALL, values, length).values().tobytes() == values.tobytes()


def test_unwritten_window_slots_count_in_attention_blocks(tmp_path: Path) -> None:
    """Reference section 7: the key list gives the window its full length, so compressed rows start at index `sliding_window`.

    A window of 60 leaves room for 4 rows in the first block of 64 when it is full, and for 60 more when it isn't.
    """
    case = random_case(tmp_path, "bf16", short(SMALL, (4,), sliding_window=60, index_topk=12))
    tokens = case.tokens(66)
    padded = trace(case.numpy_steps(tokens, official=True), "post_attention")
    plain = StepDecoder(case.geometry, case.weights, official=True, pad_window=False)
    unpadded = trace([plain.step(token) for token in tokens], "post_attention")
    different = np.any(padded != unpadded, axis=(1, 2, 3))
    assert not different[:19].any()  # up to four rows share the window's block either way
    assert different[23:59].any()
    assert not different[59:].any()


class SymmetricClamp(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        limit = self.geometry.swiglu_limit
        return np.clip(gate, -limit, limit), np.clip(up, -limit, limit)


@pytest.mark.parametrize(("kind", "faults"), [(StepDecoder, False), (SymmetricClamp, True)])
def test_lockstep_tells_a_fault_from_none(small: Callable[[Dtype], Case], kind: type[StepDecoder], faults: bool) -> None:
    """The comparison that excuses flips must not excuse a wrong stage."""
    case = small("bf16")
    lockstep = Lockstep(SMALL, case.weights)
    decoder = kind(SMALL, case.weights, official=True)
    for position, token in enumerate(case.tokens(3)):
        step = decoder.step(token)
        captures = {name: np.array([getattr(layer, name) for layer in step.layers]) for name in CAPTURES[:-2]}
        rows = np.full((SMALL.num_hidden_layers, SMALL.index_topk), -1)
        lockstep.compare(Seen(position, token, decoder.state.values(), captures | {"index_rows": rows, "logits": step.logits}))
    assert bool(lockstep.report.unexplained) == faults
    assert not lockstep.report.flips or faults


def test_full_geometry_has_layers_of_every_kind() -> None:
    assert {0, 4, FULL.hca_ratio} == set(FULL.compress_ratios)
    with pytest.raises(ValueError, match="one ratio besides 0 and 4"):
        _ = replace(FULL, compress_ratios=(0, 8, 16)).hca_ratio

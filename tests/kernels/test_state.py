"""The canonical state (reference section 11): its size, its form, and what cannot be restored."""

from __future__ import annotations

import numpy as np
import pytest
from rows import feed, tokens

import kernels


@pytest.mark.parametrize("length", [0, 1, 4, 17, 127, 128, 130])
def test_size_formula_holds_for_the_serialised_state(mote: kernels.Checkpoint, decoder: kernels.Decoder, length: int) -> None:
    state = decoder.new_state()
    if length:
        feed(decoder, state, tokens(length, 3))
    header = 96
    assert state.value_count() == kernels.state_value_count(mote.config, length - 1)
    assert len(state.serialise()) == header + 4 * state.value_count() == header + state.values().nbytes


def test_components_are_contiguous_in_layer_order(mote: kernels.Checkpoint, decoder: kernels.Decoder) -> None:
    state = decoder.new_state()
    feed(decoder, state, tokens(9, 3))
    offset, layers = 0, []
    for layer, name, start, (rows, width) in state.layout():
        assert start == offset, (layer, name)
        offset += rows * width
        layers.append(layer)
    assert offset == state.value_count()
    assert layers == sorted(layers)
    assert [name for layer, name, _, _ in state.layout() if layer == 2] == [
        "window", "rows", "kv_state", "score_state", "index_rows", "index_kv_state", "index_score_state",
    ]  # fmt: skip


def test_unwritten_slots_are_zero_and_minus_infinity(mote: kernels.Checkpoint, decoder: kernels.Decoder) -> None:
    state = decoder.new_state()
    feed(decoder, state, tokens(2, 3))
    values = state.values()
    for layer, name, start, (rows, width) in state.layout():
        block = values[start : start + rows * width].reshape(rows, width)
        if name == "window":
            assert not block[2:].any()
            assert block[:2].any(), layer
        if name.endswith("score_state"):
            ratio = mote.config.compress_ratios[layer]
            written = range(rows - ratio, rows - ratio + 2)  # with overlap the second half is this window's
            assert all(np.isneginf(block[r]).all() == (r not in written) for r in range(rows)), (layer, name)


def test_a_closed_overlapping_window_is_kept_in_both_halves(decoder: kernels.Decoder) -> None:
    """Reference section 8.4: token-by-token semantics, nothing is cleared."""
    state = decoder.new_state()
    feed(decoder, state, tokens(4, 3))
    values = state.values()
    for _, name, start, (rows, width) in state.layout():
        if name in ("kv_state", "score_state", "index_kv_state", "index_score_state") and rows == 8:
            block = values[start : start + rows * width].reshape(8, width)
            assert block[:4].tobytes() == block[4:].tobytes(), name


def test_foreign_bytes_are_not_restored(mote: kernels.Checkpoint, decoder: kernels.Decoder) -> None:
    state = decoder.new_state()
    feed(decoder, state, tokens(3, 3))
    data = state.serialise()
    other = kernels.Decoder(mote, numerics="fp32")
    for bad in (b"", data[:50], data[:-4], data + b"\0" * 4, b"X" + data[1:], data[:32] + b"0" * 64 + data[96:]):
        with pytest.raises(kernels.KernelError, match="state: "):
            decoder.restore(bad)
    with pytest.raises(kernels.KernelError, match="other numerics"):
        other.restore(data)


def test_fp64_delta_rebuilds_a_state_and_fp32_delta_is_checked(decoder: kernels.Decoder) -> None:
    """Study 2.4.3: add in FP64, cast; slots of equal bits, -inf among them, are kept."""
    base, target = decoder.new_state(), decoder.new_state()
    feed(decoder, base, tokens(6, 3))
    feed(decoder, target, [*tokens(5, 3), 77])
    before, after = base.values(), target.values()
    with np.errstate(invalid="ignore"):
        delta = after.astype(np.float64) - before
    rebuilt = base.fork()
    rebuilt.add_delta(delta, before, after)
    assert rebuilt.sha256() == target.sha256()
    wrong = delta.copy()
    place = int(np.flatnonzero(before.view(np.uint32) != after.view(np.uint32))[0])
    wrong[place] += 1.0
    kept = base.sha256()
    with pytest.raises(kernels.StateMismatch, match=f"1 after the addition, the first at {place}"):
        base.add_delta(wrong, before, after)
    with pytest.raises(kernels.StateMismatch, match="differ before"):
        base.add_delta(delta, after, after)
    assert base.sha256() == kept

"""What a row may change and capture, and that a step refuses the rest without touching a state."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from rows import feed, tokens

import kernels

LAYER = 5


@pytest.fixture(scope="module")
def prefix(decoder: kernels.Decoder) -> kernels.State:
    state = decoder.new_state()
    feed(decoder, state, tokens(6, 11))
    return state


@pytest.fixture(scope="module")
def native(decoder: kernels.Decoder, prefix: kernels.State) -> dict[str, np.ndarray]:
    """Captures of the native step at the fork, one token, one layer."""
    names = ["route", "moe_terms", "moe_shared", "moe_output", "post_attention", "ffn_post", "ffn_comb", "post_mhc"]
    (result,) = decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(capture=names, capture_layers=[LAYER]))])
    return {name: result.captures[name][0, 0] for name in names}


def test_captured_operands_rebuild_the_native_layer(native: dict[str, np.ndarray]) -> None:
    output = kernels.aggregate(native["moe_terms"], native["moe_shared"], "native", [0], expert_ids=native["route"].tolist())
    assert output[0].tobytes() == native["moe_output"].tobytes()
    streams = kernels.hc_post(output, native["post_attention"], native["ffn_post"], native["ffn_comb"])
    assert streams[0].tobytes() == native["post_mhc"].tobytes()


@pytest.mark.parametrize("scheme", ["P32", "C", "A", "B"])
def test_a_branch_has_the_state_that_the_captured_operands_give(
    decoder: kernels.Decoder, prefix: kernels.State, native: dict[str, np.ndarray], scheme: str
) -> None:
    orders = [0, 1, 135, 360, 719]
    outputs = kernels.aggregate(native["moe_terms"], native["moe_shared"], scheme, orders)
    expected = kernels.hc_post(outputs, native["post_attention"], native["ffn_post"], native["ffn_comb"])
    rows = [
        kernels.Row(
            prefix.fork(),
            [42],
            kernels.Intervention(aggregation={LAYER: (scheme, o)}, capture=["post_mhc"], capture_layers=[LAYER]),
        )
        for o in orders
    ]
    for want, result in zip(expected, decoder.step(rows), strict=True):
        assert result.captures["post_mhc"][0, 0].tobytes() == want.tobytes()


def test_all_orders_of_b_are_360_exact_pairs(native: dict[str, np.ndarray]) -> None:
    """Study 2.6."""
    outputs = kernels.aggregate(native["moe_terms"], native["moe_shared"], "B", range(720))
    pairs = kernels.structural_classes()
    assert len(pairs) == 360
    assert sorted(rank for pair in pairs for rank in pair) == list(range(720))
    assert all(outputs[low].tobytes() == outputs[high].tobytes() for low, high in pairs)
    distinct = {outputs[low].tobytes() for low, _ in pairs}
    assert 1 < len(distinct) <= 360


def test_native_order_as_scheme_c_changes_nothing(decoder: kernels.Decoder, prefix: kernels.State) -> None:
    """The native rule is C in ascending expert id (reference section 10)."""
    (plain,) = decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(capture=["route"]))])
    routes = plain.captures["route"][0]
    orders = {rank: kernels.permutation(rank) for rank in range(720)}
    by_order = {order: rank for rank, order in orders.items()}
    aggregation = {layer: ("C", by_order[tuple(int(i) for i in np.argsort(ids))]) for layer, ids in enumerate(routes)}
    state, twin = prefix.fork(), prefix.fork()
    (result,) = decoder.step([kernels.Row(state, [42], kernels.Intervention(aggregation=aggregation))])
    (expected,) = decoder.step([kernels.Row(twin, [42])])
    assert result.logits.tobytes() == expected.logits.tobytes()
    assert state.sha256() == twin.sha256()


def test_forcing_the_routers_own_choice_changes_nothing_and_another_does(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State
) -> None:
    (plain,) = decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(capture=["route"]))])
    own = {layer: ids.tolist() for layer, ids in enumerate(plain.captures["route"][0])}
    (same,) = decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(routes=own))])
    assert same.logits.tobytes() == plain.logits.tobytes()
    other = {LAYER: [e for e in range(mote.config.n_routed_experts) if e not in own[LAYER]][:6]}
    (changed,) = decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(routes=other, capture=["route"]))])
    assert changed.captures["route"][0, LAYER].tolist() == other[LAYER]
    assert changed.logits.tobytes() != plain.logits.tobytes()


def test_post_mhc_delta_rebuilds_a_branch(decoder: kernels.Decoder, prefix: kernels.State, native: dict[str, np.ndarray]) -> None:
    """Study 2.4.2: literal FP32 addition, bits required before and after."""
    branch, rebuilt = prefix.fork(), prefix.fork()
    change = kernels.Intervention(aggregation={LAYER: ("B", 135)}, capture=["post_mhc"], capture_layers=[LAYER])
    (b,) = decoder.step([kernels.Row(branch, [42], change)])
    target = b.captures["post_mhc"][0, 0]
    delta = target - native["post_mhc"]
    assert delta.any()
    (r,) = decoder.step(
        [
            kernels.Row(
                rebuilt, [42], kernels.Intervention(post_mhc_delta=kernels.PostMhcDelta(LAYER, delta, native["post_mhc"], target))
            )
        ]
    )
    assert r.logits.tobytes() == b.logits.tobytes()
    assert rebuilt.sha256() == branch.sha256()


def test_a_step_that_fails_changes_no_state(
    decoder: kernels.Decoder, prefix: kernels.State, native: dict[str, np.ndarray]
) -> None:
    good, bad = prefix.fork(), prefix.fork()
    before = prefix.sha256()
    wrong = kernels.PostMhcDelta(LAYER, np.ones_like(native["post_mhc"]), native["post_mhc"], native["post_mhc"])
    with pytest.raises(kernels.StateMismatch, match=f"layer {LAYER}, position 6: .* differ after"):
        decoder.step([kernels.Row(good, [42]), kernels.Row(bad, [42], kernels.Intervention(post_mhc_delta=wrong))])
    assert good.sha256() == bad.sha256() == before


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"aggregation": {99: ("B", 0)}}, "aggregation: found layer 99, allowed: 0 to {last_layer}"),
        ({"aggregation": {5: ("B", 720)}}, "layer 5: found order 720, allowed: 0 to 719"),
        ({"aggregation": {5: ("native", 1)}}, "allowed: 0 to 0 for scheme native"),
        ({"routes": {5: [1, 2, 3]}}, "routes: layer 5: allowed: 6 distinct expert ids 0 to {last_expert}"),
        ({"routes": {5: [1, 1, 2, 3, 4, 5]}}, "6 distinct"),
        ({"routes": {5: [1, 2, 3, 4, 5, 9999]}}, "0 to {last_expert}"),
        ({"capture_layers": [-1]}, "capture_layers: found layer -1"),
    ],
)
def test_what_the_geometry_lacks_is_refused(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State, keywords: dict, message: str
) -> None:
    message = message.format(last_layer=mote.config.num_hidden_layers - 1, last_expert=mote.config.n_routed_experts - 1)
    with pytest.raises(kernels.InterventionError) as error:
        decoder.step([kernels.Row(prefix.fork(), [42], kernels.Intervention(**keywords))])
    assert message in str(error.value)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(kernels.InterventionError, match="scheme: found D, allowed: native, P32, C, A, B"):
        kernels.Intervention(aggregation={5: ("D", 0)})
    with pytest.raises(kernels.InterventionError, match="capture: found everything, allowed: route"):
        kernels.Intervention(capture=["everything"])


def test_rows_that_cannot_run_are_refused(decoder: kernels.Decoder, mote: kernels.Checkpoint, prefix: kernels.State) -> None:
    state, vocabulary = prefix.fork(), mote.config.vocab_size
    for rows, message in (
        ([], "found no rows"),
        ([kernels.Row(state, [])], "row 0: found no tokens"),
        ([kernels.Row(state, [vocabulary])], f"row 0: found token {vocabulary}, allowed: 0 to {vocabulary - 1}"),
        ([kernels.Row(state, [-1])], "found token -1"),
        ([kernels.Row(state, [1]), kernels.Row(state, [2])], "the same state stands in two rows"),
        ([kernels.Row(kernels.Decoder(mote, numerics="fp32").new_state(), [1])], "another checkpoint or numerics mode"),
    ):
        with pytest.raises(kernels.KernelError) as error:
            decoder.step(rows)
        assert message in str(error.value)


@pytest.mark.parametrize(("layer", "threads"), [(0, 1), (0, 3), (5, 2)])
def test_weights_that_are_not_numbers_are_an_error_and_no_state(tmp_path: Path, layer: int, threads: int) -> None:
    """An erased page of a checkpoint must not pass as a model: every step that meets it fails, and writes no state."""
    copy = tmp_path / "mote"
    shutil.copytree(kernels.builtin_checkpoint(), copy)
    index = json.loads((copy / "model.safetensors.index.json").read_text())["weight_map"]
    name = f"layers.{layer}.attn.kv_norm.weight"
    shard = copy / index[name]
    with shard.open("r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(length))[name]["data_offsets"]
        file.seek(8 + length + begin)
        file.write(b"\xff" * (end - begin))
    decoder = kernels.Decoder(kernels.Checkpoint.open(copy), threads=threads)
    state = decoder.new_state()
    before = state.sha256()
    for chunk in (tokens(3, 1), tokens(1, 2)):
        with pytest.raises(kernels.KernelError, match="not finite"):
            decoder.step([kernels.Row(state, chunk)])
        assert state.sha256() == before


def test_captures_of_no_layers_keep_their_dtype(decoder: kernels.Decoder, prefix: kernels.State) -> None:
    nothing = kernels.Intervention(capture=["route", "router_margin"], capture_layers=[])
    (result,) = decoder.step([kernels.Row(prefix.fork(), [42], nothing)])
    assert result.captures["route"].dtype == np.int32
    assert result.captures["router_margin"].dtype == np.float32

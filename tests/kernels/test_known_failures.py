"""Right values where other runtimes went wrong inside one token; test_known_failures_sequences.py has what spans several.

Most tests compare the decoder with the numpy decoder, and the numpy decoder with a variant that has the failure: the decoder must
agree with the right one, and the failure must be large enough to be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracle.cases import Case, captured, random_case, short, trace
from oracle.checkpoint_files import Stored, Tensors, dequantise, write_checkpoint
from oracle.formats import F64, bf16_steps, quantise_fp8, round_bf16
from oracle.geometry import SMALL, Dtype
from oracle.lockstep import Lockstep, observe
from oracle.random_checkpoint import random_tensors
from oracle.step_attention import StepAttention
from oracle.step_decoder import I64, Mix, StepDecoder

import kernels

Small = Callable[[Dtype], Case]
SCORED = range(SMALL.num_hash_layers, SMALL.num_hidden_layers)


def changed(dtype: Dtype, edit: Callable[[str, np.ndarray], np.ndarray], names: list[str]) -> Tensors:
    """The small checkpoint's tensors of these names, their raw elements edited."""
    tensors = random_tensors(SMALL, dtype, 1)
    return {name: Stored(tensors[name].tag, np.ascontiguousarray(edit(name, tensors[name].data))) for name in names}


def logits(case: Case, tokens: list[int], kind: type[StepDecoder] = StepDecoder) -> F64:
    """[T,V] in exact arithmetic."""
    return np.stack([step.logits for step in case.numpy_steps(tokens, official=False, kind=kind)])


def assert_free_of(failure: type[StepDecoder], case: Case, length: int = 12) -> None:
    tokens = case.tokens(length)
    right = logits(case, tokens)
    assert np.abs(captured(case.decoder("fp32"), tokens, ["logits"])["logits"] - right).max() < 2e-4
    assert np.abs(logits(case, tokens, failure) - right).max() > 0.02


class InputStreamIsTheColumn(StepDecoder):
    def scatter(self, mix: Mix, output: F64, streams: F64, point: str) -> F64:
        return super().scatter(Mix(mix.pre, mix.post, mix.comb.T), output, streams, point)


def test_the_input_stream_is_the_row_of_comb(small: Small) -> None:
    """T01."""
    assert_free_of(InputStreamIsTheColumn, small("float32"))


def test_hc_post_by_hand() -> None:
    """T01: stream 2 takes a quarter of input stream 0, which takes nothing of stream 2 in return."""
    comb = np.zeros((4, 4), np.float32)
    comb[0, 2], comb[1, 1] = 0.25, 1.0
    residual = np.arange(1, 5, dtype=np.float32)[:, None] * np.ones(16, np.float32)
    post = np.array([1.0, 2.0, 0.5, 0.0], np.float32)
    streams = kernels.hc_post(np.full((1, 16), 8.0, np.float32), residual, post, comb)
    assert streams[0, :, 0].tolist() == [8.0, 18.0, 4.25, 0.0]


def test_more_streams_than_the_kernels_mix_are_refused() -> None:
    nine, comb = np.ones((9, 16), np.float32), np.ones((9, 9), np.float32)
    with pytest.raises(kernels.InterventionError, match="hc up to 8"):
        kernels.hc_post(np.ones((1, 16), np.float32), nine, nine[:, 0].copy(), comb)


class SharedUnclamped(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        return (gate, up) if shared else super().clamp(gate, up, shared)


class RoutedUnclamped(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        return super().clamp(gate, up, shared) if shared else (gate, up)


class GateClampedBelow(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        limit = self.geometry.swiglu_limit
        return np.clip(gate, -limit, limit), np.clip(up, -limit, limit)


class UpClampedAboveOnly(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        limit = self.geometry.swiglu_limit
        return np.minimum(gate, limit), np.minimum(up, limit)


class GateClampedAfterSilu(StepDecoder):
    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        limit = self.geometry.swiglu_limit
        return np.where(gate / (1 + np.exp(-gate)) > limit, limit, gate), np.clip(up, -limit, limit)


@pytest.mark.parametrize(
    "failure",
    [SharedUnclamped, RoutedUnclamped, GateClampedBelow, UpClampedAboveOnly, GateClampedAfterSilu],
    ids=lambda kind: kind.__name__,
)
def test_swiglu_clamps_the_gate_above_and_up_on_both_sides_in_every_expert(small: Small, failure: type[StepDecoder]) -> None:
    """T02, T03, T04."""
    assert_free_of(failure, small("float32"))


class WeightAfterDown(StepDecoder):
    def down(self, prefix: str, hidden: F64, weight: float | None) -> tuple[F64, F64]:
        term, rounded = super().down(prefix, hidden, None)
        return (term, rounded) if weight is None else (weight * term, self.round(weight * term, prefix))


@pytest.mark.parametrize("dtype", ["bf16", "fp4fp8"])
def test_the_routers_weight_enters_before_w2(small: Small, dtype: Dtype) -> None:
    """T05: another rounding, so terms of the first token's first layer are compared, which no flip has touched yet."""
    case = small(dtype)
    tokens = case.tokens(1)
    terms = captured(case.decoder(), tokens, ["moe_terms"])["moe_terms"][0, 0]
    right, wrong = (
        case.numpy_steps(tokens, official=True, kind=kind)[0].layers[0].moe_terms for kind in (StepDecoder, WeightAfterDown)
    )
    assert np.abs(terms - right).max() < 1e-5
    assert np.abs(terms - wrong).max() > 1e-3


def test_index_rows_are_read_in_score_order(tmp_path: Path) -> None:
    """T10: rows of score order fill attention blocks in that order, which a short window with many rows makes visible."""

    class IndexOrder(StepDecoder):
        class Attention(StepAttention):
            def select(self, scores: F64) -> tuple[I64, float]:
                chosen, gap = super().select(scores)
                return np.sort(chosen), gap

        def __init__(self, *args: object, **keywords: object) -> None:
            super().__init__(*args, **keywords)
            self.attention = self.Attention(self.geometry, self.weights, self.round, True)

    case = random_case(tmp_path, "bf16", short(SMALL, (4,), sliding_window=60, index_topk=12))
    tokens = case.tokens(66)
    ours = captured(case.decoder(), tokens, ["index_rows", "post_attention"])
    right, wrong = (case.numpy_steps(tokens, official=True, kind=kind) for kind in (StepDecoder, IndexOrder))
    last = ours["index_rows"][-1, 0]
    assert last.tolist() == right[-1].layers[0].index_rows.tolist()
    assert last.tolist() != sorted(last)
    unequal, unlike = (np.mean(trace(steps, "post_attention") != ours["post_attention"]) for steps in (right, wrong))
    assert unequal < 0.01 < unlike


def test_attention_blocks_count_the_whole_window(tmp_path: Path) -> None:
    """Reference section 7: with a window of 60, the fifth and later rows lie in the second block from the first token on."""
    case = random_case(tmp_path, "bf16", short(SMALL, (4,), sliding_window=60, index_topk=12))
    lockstep = Lockstep(case.geometry, case.weights)
    for seen in observe(case.decoder(), case.tokens(40)):
        lockstep.compare(seen)
    assert lockstep.report.unexplained == []


def test_equal_router_scores_go_to_the_lower_expert(tmp_path: Path) -> None:
    """T16: experts score equal in fours, so the cut at six runs through the second four."""
    names = [f"layers.{layer}.ffn.gate.{part}" for layer in SCORED for part in ("weight", "bias")]
    case = random_case(tmp_path, "bf16", SMALL, changed("bf16", lambda _, data: np.repeat(data[::4], 4, 0), names))
    ours = captured(case.decoder(), case.tokens(12), ["route", "router_margin"])
    for route in ours["route"][:, SCORED.start :].reshape(-1, 6).tolist():
        assert [expert % 4 for expert in route] == [0, 1, 2, 3, 0, 1]
    assert not ours["router_margin"][:, SCORED.start :].any()


def test_equal_index_scores_go_to_the_lower_row(tmp_path: Path) -> None:
    """T16: all index weights zero, so all scores are."""
    names = [
        f"layers.{layer}.attn.indexer.weights_proj.weight" for layer, ratio in enumerate(SMALL.compress_ratios) if ratio == 4
    ]
    case = random_case(tmp_path, "bf16", SMALL, changed("bf16", lambda _, data: np.zeros_like(data), names))
    ours = captured(case.decoder(), case.tokens(24), ["index_rows", "index_margin"])
    assert ours["index_rows"][-1, 2].tolist() == list(range(SMALL.index_topk))
    assert ours["index_margin"][-1, 2] == 0


def test_equal_logits_go_to_the_lower_token(tmp_path: Path) -> None:
    """T16: each id of the upper half scores as the one 64 below."""
    half = SMALL.vocab_size // 2
    case = random_case(tmp_path, "bf16", SMALL, changed("bf16", lambda _, data: np.tile(data[:half], (2, 1)), ["head.weight"]))
    decoder = case.decoder()
    state = decoder.new_state()
    for token in case.tokens(12):
        (result,) = decoder.step([kernels.Row(state, [token], kernels.Intervention(capture=["logit_margin"]))])
        assert result.token == int(np.argmax(result.logits[:half]))
        assert result.captures["logit_margin"].tolist() == [0]


class RouterLogitsInBf16(StepDecoder):
    def router_scores(self, prefix: str, x: F64) -> F64:
        rounded = round_bf16(self.weights[f"{prefix}.gate.weight"] @ x).astype(np.float64)
        return np.sqrt(np.logaddexp(0, rounded))


@pytest.mark.parametrize("dtype", ["bf16", "fp4fp8"])
def test_router_scores_are_not_rounded(small: Small, dtype: Dtype) -> None:
    """T17."""
    case = small(dtype)
    tokens = case.tokens(1)
    scores = captured(case.decoder(), tokens, ["router_scores"])["router_scores"][0, 0]
    right, wrong = (
        case.numpy_steps(tokens, official=True, kind=k)[0].layers[0].router_scores for k in (StepDecoder, RouterLogitsInBf16)
    )
    assert np.abs(scores - right).max() < 1e-6
    assert np.abs(scores - wrong).max() > 1e-4


def test_the_bias_selects_and_does_not_weigh(small: Small) -> None:
    """T19: chosen by score plus bias, which differs from the score's own choice; weights are 1.5 of the plain scores' shares."""
    case = small("float32")
    ours = captured(case.decoder("fp32"), case.tokens(24), ["route", "route_weights", "router_scores"])
    for layer in range(SMALL.num_hash_layers, SMALL.num_hidden_layers):
        bias = case.weights[f"layers.{layer}.ffn.gate.bias"]
        scores, route = ours["router_scores"][:, layer].astype(np.float64), ours["route"][:, layer]
        assert np.array_equal(route, np.argsort(-(scores + bias), kind="stable")[:, : SMALL.num_experts_per_tok])
        assert not np.array_equal(np.sort(route), np.sort(np.argsort(-scores, kind="stable")[:, : SMALL.num_experts_per_tok]))
        chosen = np.take_along_axis(scores, route.astype(np.int64), -1)
        assert np.allclose(ours["route_weights"][:, layer], 1.5 * chosen / chosen.sum(-1, keepdims=True), rtol=1e-6, atol=0)


def test_the_table_decides_in_hash_layers(small: Small) -> None:
    """T20: ids and their order are the table's, weights still the router's, and no gap is reported."""
    case = small("float32")
    tokens = case.tokens(24)
    ours = captured(case.decoder("fp32"), tokens, ["route", "route_weights", "router_scores", "router_margin"])
    for layer in range(SMALL.num_hash_layers):
        table = case.weights.expert_table(f"layers.{layer}.ffn.gate.tid2eid")
        assert np.array_equal(ours["route"][:, layer], table[tokens])
        chosen = np.take_along_axis(ours["router_scores"][:, layer].astype(np.float64), table[tokens], -1)
        assert np.allclose(ours["route_weights"][:, layer], 1.5 * chosen / chosen.sum(-1, keepdims=True), rtol=1e-6, atol=0)
    assert np.isinf(ours["router_margin"][:, : SMALL.num_hash_layers]).all()


class RowsFirst(StepDecoder):
    def sinkhorn(self, logits: F64) -> F64:
        return super().sinkhorn(logits.T).T


class OneIterationMore(StepDecoder):
    def sinkhorn(self, logits: F64) -> F64:
        eps, comb = self.geometry.hc_eps, super().sinkhorn(logits)
        comb = comb / (comb.sum(1, keepdims=True) + eps)
        return comb / (comb.sum(0, keepdims=True) + eps)


class NoEpsilon(StepDecoder):
    def sinkhorn(self, logits: F64) -> F64:
        kept, self.geometry = self.geometry, replace(self.geometry, hc_eps=0.0)
        comb = super().sinkhorn(logits)
        self.geometry = kept
        return comb


@pytest.mark.parametrize("failure", [RowsFirst, OneIterationMore, NoEpsilon], ids=lambda kind: kind.__name__)
def test_sinkhorn_steps_columns_first_for_the_stated_iterations(tmp_path: Path, failure: type[StepDecoder]) -> None:
    """T21: two iterations and a coarse epsilon, so that it has not converged and every part of it shows."""
    geometry = replace(SMALL, compress_ratios=(0, 0, 4), hc_sinkhorn_iters=2, hc_eps=1e-3)
    case = random_case(tmp_path, "float32", geometry)
    tokens = case.tokens(4)
    comb = captured(case.decoder("fp32"), tokens, ["ffn_comb"])["ffn_comb"]
    right, wrong = (trace(case.numpy_steps(tokens, official=False, kind=kind), "ffn_comb") for kind in (StepDecoder, failure))
    assert np.abs(comb - right).max() < 1e-5
    assert np.abs(wrong - right).max() > 1e-4


class Bf16Accumulator(StepDecoder):
    def aggregate(self, terms: F64, route: I64, shared: F64, prefix: str) -> F64:
        total = np.zeros(self.geometry.hidden_size)
        for term in [*terms[np.argsort(route)], shared]:
            total = round_bf16(total + term).astype(np.float64)
        return total


def test_the_weighted_sum_runs_in_fp32(small: Small) -> None:
    """T22: over 40 tokens every output is the FP32 sum of the captured terms in ascending expert id, rounded once."""
    case = small("bf16")
    ours = captured(case.decoder(), case.tokens(40), ["route", "moe_terms", "moe_shared", "moe_output"])
    terms = np.take_along_axis(round_bf16(ours["moe_terms"]), np.argsort(ours["route"], -1)[..., None], 2)
    total = np.zeros(ours["moe_output"].shape, np.float32)
    for place in range(terms.shape[2]):
        total = total + terms[:, :, place]
    assert np.array_equal(round_bf16(total + ours["moe_shared"]), ours["moe_output"])
    wrong = Bf16Accumulator(SMALL, case.weights, official=True)
    first = wrong.aggregate(terms[0, 0].astype(np.float64), np.arange(6), ours["moe_shared"][0, 0].astype(np.float64), "")
    assert bf16_steps(first, ours["moe_output"][0, 0]).max() >= 1


def test_experts_stored_in_fp8_are_read_as_fp8(small: Small, tmp_path: Path) -> None:
    """T23: same names and config as FP4 experts, other dtype tags."""
    four = small("fp4fp8")
    changes = {}
    for name, stored in four.tensors.items():
        if stored.tag == "I8" and not name.startswith("mtp."):
            codes, scales = quantise_fp8(dequantise(four.tensors, name).astype(np.float64))
            changes |= {name: Stored("F8_E4M3", codes), name.removesuffix("weight") + "scale": Stored("F8_E8M0", scales)}
    assert_free_of(InputStreamIsTheColumn, random_case(tmp_path, "fp4fp8", SMALL, changes))


def test_dequantised_weights_give_the_same_bits_as_stored_ones(small: Small, tmp_path: Path) -> None:
    """T23: nibbles, block edges and scales are read right if an F32 copy of the weights changes no bit in fp32 numerics."""
    packed = small("fp4fp8")
    names = [name for name in packed.tensors if not name.endswith(".scale")]
    plain = {name: Stored("I64" if name.endswith("tid2eid") else "F32", dequantise(packed.tensors, name)) for name in names}
    copy = Case(SMALL, write_checkpoint(tmp_path, SMALL, "float32", plain), plain)
    tokens = packed.tokens(24)
    ours, theirs = (captured(case.decoder("fp32"), tokens, ["logits", "post_mhc"]) for case in (packed, copy))
    assert ours["post_mhc"].tobytes() == theirs["post_mhc"].tobytes()
    assert ours["logits"].tobytes() == theirs["logits"].tobytes()


def test_the_gap_at_the_cut_is_recorded(small: Small) -> None:
    """T28: the selection score of the last chosen expert less that of the first left out; at the end likewise of the ids."""
    case = small("bf16")
    ours = captured(case.decoder(), case.tokens(12), ["router_scores", "router_margin", "logits", "logit_margin"])
    for layer in SCORED:
        selection = ours["router_scores"][:, layer] + case.tensors[f"layers.{layer}.ffn.gate.bias"].data
        ranked = -np.sort(-selection, -1)
        assert np.allclose(ours["router_margin"][:, layer], ranked[:, 5] - ranked[:, 6], rtol=0, atol=1e-6)
    two = -np.sort(-ours["logits"], -1)[:, :2]
    assert np.array_equal(ours["logit_margin"], two[:, 0] - two[:, 1])

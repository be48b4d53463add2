"""A decoder in numpy, one token at a time, written from the reference page alone: what the C++ decoder is compared with.

Two arithmetics: exact, float64 without any rounding, which must agree with transformers in float64; and official, every BF16,
FP8 and FP4 rounding point of the reference with real arithmetic between them, so that an engine in FP32 differs from it only
where a value lies within FP32's error of a rounding tie.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oracle.checkpoint_files import Weights
from oracle.formats import F64
from oracle.geometry import Geometry
from oracle.rounding import Rounding
from oracle.step_attention import StepAttention
from oracle.step_state import LayerState, SequenceState

I64 = npt.NDArray[np.int64]


@dataclass
class LayerTrace:
    """What one layer did with one token; names and order are those of the decoder's captures. k experts in router order."""

    index_rows: I64  # [<= index_topk], score order
    index_margin: float
    post_attention: F64  # [hc,D]
    router_scores: F64  # [E], without bias
    router_margin: float
    route: I64  # [k]
    route_weights: F64  # [k]
    moe_terms: F64  # [k,D], gate applied, before BF16 rounding
    rounded_terms: F64  # [k,D], after it
    moe_shared: F64  # [D]
    moe_output: F64  # [D]
    ffn_post: F64  # [hc]
    ffn_comb: F64  # [hc,hc]
    post_mhc: F64  # [hc,D]


@dataclass
class Step:
    """One token's result."""

    logits: F64 = field(default_factory=lambda: np.zeros(0))  # [V]
    layers: list[LayerTrace] = field(default_factory=list)


@dataclass
class Mix:
    """Weights of one hyper-connection: into the block, back into the streams, and among the streams (row = input stream)."""

    pre: F64  # [hc]
    post: F64  # [hc]
    comb: F64  # [hc,hc]


class StepDecoder:
    """One sequence over one checkpoint. A stage that a known failure got wrong is a method, so that a test may break it."""

    def __init__(self, geometry: Geometry, weights: Weights, *, official: bool, pad_window: bool = True) -> None:
        self.geometry = geometry
        self.weights = weights
        self.official = official
        self.round = Rounding(official)
        self.attention = StepAttention(geometry, weights, self.round, pad_window)
        self.state = SequenceState(geometry)

    def step(self, token: int) -> Step:
        """Process one token (reference section 5)."""
        streams = self.embed(token)
        step = Step()
        for layer in range(self.geometry.num_hidden_layers):
            trace = self.layer(layer, token, streams)
            step.layers.append(trace)
            streams = trace.post_mhc
        step.logits = self.head(streams)
        self.state.position += 1
        return step

    def embed(self, token: int) -> F64:
        return np.repeat(self.weights["embed.weight"][token][None], self.geometry.hc_mult, 0)

    def layer(self, layer: int, token: int, streams: F64) -> LayerTrace:
        """One layer over streams [hc,D]; writes the layer's state for the current position."""
        index_rows, index_margin, middle = self.attention_half(layer, streams, self.state.layers[layer])
        return self.moe_half(layer, token, middle, index_rows, index_margin)

    def attention_half(self, layer: int, streams: F64, state: LayerState) -> tuple[I64, float, F64]:
        """-> index rows, index margin, streams [hc,D] after attention."""
        mix = self.mix(f"layers.{layer}.hc_attn", streams)
        x = self.gather(mix, streams, f"layers.{layer}.attn")
        output, index_rows, index_margin = self.attention(layer, x, state, self.state.position)
        return index_rows, index_margin, self.scatter(mix, output, streams, f"layers.{layer}.post_attention")

    def moe_half(self, layer: int, token: int, streams: F64, index_rows: I64, index_margin: float) -> LayerTrace:
        mix = self.mix(f"layers.{layer}.hc_ffn", streams)
        x = self.gather(mix, streams, f"layers.{layer}.ffn")
        prefix = f"layers.{layer}.ffn"
        scores = self.router_scores(prefix, x)
        route, margin = self.route(layer, token, scores)
        gates = self.gates(prefix, scores, route)
        experts = [self.expert(f"{prefix}.experts.{e}", x, g) for e, g in zip(route, gates, strict=True)]
        terms, rounded = np.stack([term for term, _ in experts]), np.stack([term for _, term in experts])
        _, shared = self.expert(f"{prefix}.shared_experts", x, None)
        output = self.aggregate(rounded, route, shared, prefix)
        after = self.scatter(mix, output, streams, f"layers.{layer}.post_mhc")
        return LayerTrace(
            index_rows=index_rows,
            index_margin=index_margin,
            post_attention=streams,
            router_scores=scores,
            router_margin=margin,
            route=route,
            route_weights=gates,
            moe_terms=terms,
            rounded_terms=rounded,
            moe_shared=shared,
            moe_output=output,
            ffn_post=mix.post,
            ffn_comb=mix.comb,
            post_mhc=after,
        )

    def head(self, streams: F64) -> F64:
        """Logits [V] of streams [hc,D]."""
        g = self.geometry
        flat = streams.reshape(-1)
        mixed = self.weights["hc_head_fn"] @ flat / np.sqrt(np.mean(flat * flat) + g.rms_norm_eps)
        weight = _sigmoid(mixed * self.weights["hc_head_scale"][0] + self.weights["hc_head_base"]) + g.hc_eps
        x = self.attention.rms(self.round(weight @ streams, "hc_head", lambda: weight @ np.abs(streams)), "norm")
        return self.weights["head.weight"] @ x

    def mix(self, prefix: str, streams: F64) -> Mix:
        """hc_pre's weights for streams [hc,D] (section 5)."""
        g, n = self.geometry, self.geometry.hc_mult
        flat = streams.reshape(-1)
        mixed = self.weights[f"{prefix}_fn"] @ flat / np.sqrt(np.mean(flat * flat) + g.rms_norm_eps)
        scale, base = self.weights[f"{prefix}_scale"], self.weights[f"{prefix}_base"]
        pre = _sigmoid(mixed[:n] * scale[0] + base[:n]) + g.hc_eps
        post = 2 * _sigmoid(mixed[n : 2 * n] * scale[1] + base[n : 2 * n])
        comb = self.sinkhorn((mixed[2 * n :] * scale[2] + base[2 * n :]).reshape(n, n))
        return Mix(pre, post, comb)

    def sinkhorn(self, logits: F64) -> F64:
        """[hc,hc] -> nearly doubly stochastic: softmax of each row, then columns first, then rows and columns in turn."""
        eps = self.geometry.hc_eps
        comb = np.exp(logits - logits.max(1, keepdims=True))
        comb = comb / comb.sum(1, keepdims=True) + eps
        comb = comb / (comb.sum(0, keepdims=True) + eps)
        for _ in range(self.geometry.hc_sinkhorn_iters - 1):
            comb = comb / (comb.sum(1, keepdims=True) + eps)
            comb = comb / (comb.sum(0, keepdims=True) + eps)
        return comb

    def gather(self, mix: Mix, streams: F64, block: str) -> F64:
        """Normalised input [D] of a block."""
        x = self.round(mix.pre @ streams, f"{block}.hc_pre", lambda: mix.pre @ np.abs(streams))
        return self.attention.rms(x, f"{block}_norm")

    def scatter(self, mix: Mix, output: F64, streams: F64, point: str) -> F64:
        """hc_post: stream j gets post[j] * output plus sum over input streams i of comb[i][j] * stream i."""
        mixed = mix.post[:, None] * output + mix.comb.T @ streams
        return self.round(mixed, point, lambda: mix.post[:, None] * np.abs(output) + mix.comb.T @ np.abs(streams))

    def router_scores(self, prefix: str, x: F64) -> F64:
        """sqrt(softplus(gate . x)) [E], never rounded (section 10)."""
        logits = self.weights[f"{prefix}.gate.weight"] @ x
        return np.sqrt(np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits))))

    def route(self, layer: int, token: int, scores: F64) -> tuple[I64, float]:
        """The k expert ids in router order and the gap of the selection scores at the cut (inf in a hash layer)."""
        k, prefix = self.geometry.num_experts_per_tok, f"layers.{layer}.ffn.gate"
        if layer < self.geometry.num_hash_layers:
            return self.weights.expert_table(f"{prefix}.tid2eid")[token], np.inf
        biased = scores + self.weights[f"{prefix}.bias"]
        order = np.argsort(-biased, kind="stable")
        return order[:k], float(biased[order[k - 1]] - biased[order[k]])

    def gates(self, prefix: str, scores: F64, route: I64) -> F64:
        """Weights [k] of the chosen experts, from their scores without bias."""
        return scores[route] / scores[route].sum() * self.geometry.routed_scaling_factor

    def clamp(self, gate: F64, up: F64, shared: bool) -> tuple[F64, F64]:
        """The gate from above only, up on both sides, in routed and shared experts alike."""
        limit = self.geometry.swiglu_limit
        return np.minimum(gate, limit), np.clip(up, -limit, limit)

    def expert(self, prefix: str, x: F64, weight: float | None) -> tuple[F64, F64]:
        """An expert's output [D] before and after its BF16 rounding; weight None: the shared expert."""
        gate, up = self.attention.linear(f"{prefix}.w1", x), self.attention.linear(f"{prefix}.w3", x)
        gate, up = self.clamp(gate, up, weight is None)
        return self.down(prefix, gate * _sigmoid(gate) * up, weight)

    def down(self, prefix: str, hidden: F64, weight: float | None) -> tuple[F64, F64]:
        """The router's weight enters before w2, so what is rounded, and sent through FP8, is the weighted vector."""
        hidden = self.round(hidden if weight is None else weight * hidden, f"{prefix}.hidden")
        output, down = self.attention.product(f"{prefix}.w2", hidden), self.weights[f"{prefix}.w2.weight"]
        return output, self.round(output, f"{prefix}.w2", lambda: np.abs(down) @ np.abs(hidden))

    def aggregate(self, terms: F64, route: I64, shared: F64, prefix: str) -> F64:
        """BF16 terms [k,D] in ascending expert id, then the shared expert, one rounding at the end."""
        total = np.zeros(self.geometry.hidden_size)
        for place in np.argsort(route):
            total = total + terms[place]
        return self.round(total + shared, f"{prefix}.output", lambda: np.abs(terms).sum(0) + np.abs(shared))


def _sigmoid(x: F64) -> F64:
    return 1 / (1 + np.exp(-x))

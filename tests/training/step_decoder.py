"""A token-by-token decoder in FP64 without rounding, written from the reference page, to check the training forward against.

It keeps explicit running state (ring, compressor state, rows), reads parameters from a `training` decoder's state and
shares no code with it.
"""

from __future__ import annotations

import math

import numpy as np


class StepDecoder:
    """`step(token)` -> (FP64 logits [vocab], chosen experts per layer)."""

    def __init__(self, g, state) -> None:
        self.g, self.w = g, {name: tensor.double().numpy() for name, tensor in state.items()}
        self.p = 0
        self.layers = [self._empty(ratio) for ratio in g.ratios]

    def _empty(self, ratio: int) -> dict:
        g, c = self.g, 2 if ratio == 4 else 1
        state = {"window": {}, "rows": [], "index_rows": []}
        for key, dim in (("", g.head_dim), ("index_", g.index_dim)):
            state[key + "kv"] = np.zeros((c * ratio, c * dim))
            state[key + "score"] = np.full((c * ratio, c * dim), -np.inf)
        return state

    def rms(self, x, weight=1.0):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.g.norm_eps) * weight

    def rope(self, x, position: int, compressed: bool, sign: int = 1):
        g, y = self.g, x.copy()
        base = g.compress_rope_theta if compressed else g.rope_theta
        theta = base ** (-np.arange(0, g.rope_dim, 2) / g.rope_dim)
        if compressed and g.yarn_factor != 1:
            low, high = (g.rope_dim * math.log(g.yarn_original / (2 * math.pi * n)) / (2 * math.log(base)) for n in (32, 1))
            low, high = max(math.floor(low), 0), min(math.ceil(high), g.rope_dim - 1)
            ramp = np.clip((np.arange(g.rope_dim // 2) - low) / max(high - low, 0.001), 0, 1)
            theta = theta / g.yarn_factor * ramp + theta * (1 - ramp)
        cos, sin = np.cos(position * theta), sign * np.sin(position * theta)
        tail = x[..., -g.rope_dim :]
        a, b = tail[..., 0::2], tail[..., 1::2]
        y[..., -g.rope_dim :: 2], y[..., -g.rope_dim + 1 :: 2] = a * cos - b * sin, a * sin + b * cos
        return y

    def hyper(self, streams, path: str):
        g, n = self.g, self.g.streams
        v = streams.ravel()
        m = self.w[path + ".fn"] @ v / np.sqrt(np.mean(v * v) + g.norm_eps)
        scale, base = self.w[path + ".scale"], self.w[path + ".base"]

        def sigmoid(z):
            return 1 / (1 + np.exp(-z))

        pre = sigmoid(m[:n] * scale[0] + base[:n]) + g.hc_eps
        if len(m) == n:
            return pre, None, None
        comb = np.exp((m[2 * n :] * scale[2] + base[2 * n :]).reshape(n, n))
        comb = comb / comb.sum(1, keepdims=True) + g.hc_eps
        comb /= comb.sum(0, keepdims=True) + g.hc_eps
        for _ in range(g.sinkhorn_iters - 1):
            comb /= comb.sum(1, keepdims=True) + g.hc_eps
            comb /= comb.sum(0, keepdims=True) + g.hc_eps
        return pre, 2 * sigmoid(m[n : 2 * n] * scale[1] + base[n : 2 * n]), comb

    def compress(self, path: str, x, kv, score, *, ratio: int, dim: int):
        slot = self.p % ratio
        row = slot + (ratio if ratio == 4 else 0)
        kv[row] = self.w[path + ".wkv.weight"] @ x
        score[row] = self.w[path + ".wgate.weight"] @ x + self.w[path + ".ape"][slot]
        if (self.p + 1) % ratio:
            return None
        if ratio == 4:
            items, gates = np.concatenate([kv[:4, :dim], kv[4:, dim:]]), np.concatenate([score[:4, :dim], score[4:, dim:]])
        else:
            items, gates = kv, score
        weight = np.exp(gates - gates.max(0))
        pooled = self.rms((items * weight).sum(0) / weight.sum(0), self.w[path + ".norm"])
        if ratio == 4:
            kv[:4], score[:4] = kv[4:], score[4:]
        return self.rope(pooled, self.p + 1 - ratio, True)

    def attention(self, layer: int, x):
        g, ratio, state, a = self.g, self.g.ratios[layer], self.layers[layer], f"layers.{layer}.attn"
        qr = self.rms(self.w[a + ".wq_a.weight"] @ x, self.w[a + ".q_norm"])
        q = self.rope(self.rms((self.w[a + ".wq_b.weight"] @ qr).reshape(g.heads, g.head_dim)), self.p, ratio > 0)
        state["window"][self.p] = self.rope(self.rms(self.w[a + ".wkv.weight"] @ x, self.w[a + ".kv_norm"]), self.p, ratio > 0)
        keys = [state["window"][p] for p in range(max(0, self.p - g.window + 1), self.p + 1)]
        if ratio:
            row = self.compress(a + ".compressor", x, state["kv"], state["score"], ratio=ratio, dim=g.head_dim)
            state["rows"] += [] if row is None else [row]
        if ratio == 4:
            i = a + ".indexer"
            row = self.compress(i + ".compressor", x, state["index_kv"], state["index_score"], ratio=4, dim=g.index_dim)
            state["index_rows"] += [] if row is None else [row]
            if state["index_rows"]:
                iq = self.rope((self.w[i + ".wq_b.weight"] @ qr).reshape(g.index_heads, g.index_dim), self.p, True)
                weight = self.w[i + ".weights_proj.weight"] @ x
                score = (np.maximum(iq @ np.stack(state["index_rows"]).T, 0) * weight[:, None]).sum(0)
                keys += [state["rows"][t] for t in sorted(range(len(score)), key=lambda t: (-score[t], t))[: g.index_topk]]
        else:
            keys += state["rows"]
        k = np.stack(keys)
        s, sink = q @ k.T / math.sqrt(g.head_dim), self.w[a + ".attn_sink"]
        e = np.exp(s)
        o = self.rope(e @ k / (e.sum(1) + np.exp(sink))[:, None], self.p, ratio > 0, sign=-1).reshape(g.o_groups, -1)
        z = np.einsum("gk,grk->gr", o, self.w[a + ".wo_a.weight"].reshape(g.o_groups, g.o_lora, -1))
        return self.w[a + ".wo_b.weight"] @ z.ravel()

    def experts(self, layer: int, x, token: int):
        g, f = self.g, f"layers.{layer}.ffn"
        z = self.w[f + ".gate.weight"] @ x
        score = np.sqrt(np.logaddexp(0, z))
        if layer < g.hash_layers:
            chosen = self.w[f + ".tid2eid"][token].astype(int)
        else:
            biased = score + self.w[f + ".bias"]
            chosen = np.array(sorted(range(g.experts), key=lambda e: (-biased[e], e))[: g.topk])
        gate = score[chosen] / score[chosen].sum() * g.route_scale

        def swiglu(up, down, x, gate=1.0):
            a, b = np.minimum(up[0] @ x, g.swiglu_limit), np.clip(up[1] @ x, -g.swiglu_limit, g.swiglu_limit)
            return down @ (gate * a / (1 + np.exp(-a)) * b)

        shared = [self.w[f + f".shared_{n}.weight"] for n in ("w1", "w3", "w2")]
        y = swiglu(shared[:2], shared[2], x)
        for e, weight in zip(chosen, gate, strict=False):
            y = y + swiglu(self.w[f + ".w13"][e], self.w[f + ".w2"][e], x, weight)
        return y, chosen

    def step(self, token: int):
        g, routes = self.g, []
        x = np.repeat(self.w["embed"][token][None], g.streams, 0)
        for layer in range(g.layers):
            for part in ("attn", "ffn"):
                path = f"layers.{layer}."
                pre, post, comb = self.hyper(x, path + "hc_" + part)
                y = self.rms(pre @ x, self.w[path + part + "_norm"])
                if part == "attn":
                    y = self.attention(layer, y)
                else:
                    y, chosen = self.experts(layer, y, token)
                    routes.append(sorted(chosen.tolist()))
                x = post[:, None] * y[None] + comb.T @ x
        pre, _, _ = self.hyper(x, "hc_head")
        self.p += 1
        return self.w["head"] @ self.rms(pre @ x, self.w["norm"]), routes

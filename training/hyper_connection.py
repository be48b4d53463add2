"""Manifold-constrained hyper-connections: four residual streams, mixed around every sub-layer (reference page, section 5)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.geometry import Geometry
from training.sinkhorn import sinkhorn


def _mix(x: Tensor, fn: Tensor, eps: float) -> Tensor:
    """(fn . v) / rms(v) with v the flattened streams: [..., streams, hidden] -> FP32 [..., outputs]."""
    v = x.flatten(-2)
    return F.linear(v, fn.to(v.dtype)).float() * torch.rsqrt(v.float().square().mean(-1, keepdim=True) + eps)


class HyperConnection(nn.Module):
    """hc_pre and hc_post of one sub-layer. fn [24, 4*hidden], base [24], scale [3], all FP32 on disk."""

    def __init__(self, g: Geometry) -> None:
        super().__init__()
        n = g.streams
        self.g = g
        self.fn = nn.Parameter(torch.randn((2 + n) * n, n * g.hidden) * (n * g.hidden) ** -0.5)
        base = torch.zeros((2 + n) * n)
        base[:n] = math.log(0.25 / 0.75)  # each stream read with weight 1/4 at the start
        base[2 * n :] = (4 * torch.eye(n)).flatten()  # and mostly kept to itself
        self.base = nn.Parameter(base)
        self.scale = nn.Parameter(torch.full((3,), 0.1))

    def pre(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B,S,n,D] -> sub-layer input [B,S,D], post [B,S,n] FP32, comb [B,S,n,n] FP32."""
        g, n = self.g, self.g.streams
        m = _mix(x, self.fn, g.norm_eps)
        pre = torch.sigmoid(m[..., :n] * self.scale[0] + self.base[:n]) + g.hc_eps
        post = 2 * torch.sigmoid(m[..., n : 2 * n] * self.scale[1] + self.base[n : 2 * n])
        logits = (m[..., 2 * n :] * self.scale[2] + self.base[2 * n :]).unflatten(-1, (n, n))
        comb = sinkhorn(logits, g.sinkhorn_iters, g.hc_eps)
        return (pre[..., None] * x.float()).sum(-2).to(x.dtype), post, comb

    @staticmethod
    def post(y: Tensor, x: Tensor, post: Tensor, comb: Tensor) -> Tensor:
        """X'[j] = post[j] * y + sum_i comb[i][j] * X[i]; written as a sum over i so that it fuses into one pass."""
        wide, out = x.float(), post[..., None] * y.float()[..., None, :]
        for i in range(x.shape[-2]):
            out = out + comb[..., i, :, None] * wide[..., i, None, :]
        return out.to(x.dtype)


class HyperHead(nn.Module):
    """hc_head: the weighted sum of the streams before the final norm. fn [4, 4*hidden], base [4], scale [1]."""

    def __init__(self, g: Geometry) -> None:
        super().__init__()
        self.g = g
        self.fn = nn.Parameter(torch.randn(g.streams, g.streams * g.hidden) * (g.streams * g.hidden) ** -0.5)
        self.base = nn.Parameter(torch.full((g.streams,), math.log(0.25 / 0.75)))
        self.scale = nn.Parameter(torch.full((1,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.sigmoid(_mix(x, self.fn, self.g.norm_eps) * self.scale + self.base) + self.g.hc_eps
        return (weight[..., None] * x.float()).sum(-2).to(x.dtype)

"""Router and experts (reference page, section 10)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.formats import round_fp4, straight_through
from training.geometry import Geometry
from training.layers import Linear, activation


class _Dispatch(torch.autograd.Function):
    """x[token]: each token once per chosen expert. The backward sums by the inverse permutation, so no atomic adds."""

    @staticmethod
    def forward(ctx, x: Tensor, token: Tensor, inverse: Tensor, topk: int) -> Tensor:
        ctx.save_for_backward(inverse)
        ctx.topk = topk
        return x[token]

    @staticmethod
    def backward(ctx, grad: Tensor):
        (inverse,) = ctx.saved_tensors
        return grad[inverse].unflatten(0, (-1, ctx.topk)).float().sum(1).to(grad.dtype), None, None, None


class _Combine(torch.autograd.Function):
    """Sum over a token's experts of expert-ordered rows, FP32 inside; the reverse of `_Dispatch`."""

    @staticmethod
    def forward(ctx, rows: Tensor, token: Tensor, inverse: Tensor, topk: int) -> Tensor:
        ctx.save_for_backward(token)
        return rows[inverse].unflatten(0, (-1, topk)).float().sum(1).to(rows.dtype)

    @staticmethod
    def backward(ctx, grad: Tensor):
        return grad[ctx.saved_tensors[0]], None, None, None


class MixtureOfExperts(nn.Module):
    """`topk` of `experts` routed SwiGLU experts plus one shared expert; routed weights FP4, shared weights FP8.

    w13 [experts, 2, inter, hidden] holds gate and up projections, w2 [experts, hidden, inter] the down projection.
    Layers below `hash_layers` route by token id; the others by score plus a bias that balances load without a gradient.
    """

    def __init__(self, g: Geometry, layer: int) -> None:
        super().__init__()
        self.g, self.hashed = g, layer < g.hash_layers
        self.gate = Linear(g.hidden, g.experts, fp8=False)
        if self.hashed:
            draw = torch.Generator().manual_seed(1000 + layer)
            ids = torch.stack([torch.randperm(g.experts, generator=draw)[: g.topk] for _ in range(g.vocab)])
            self.register_buffer("tid2eid", ids)
        else:
            self.register_buffer("bias", torch.zeros(g.experts))
        down = (g.inter * 2 * g.layers) ** -0.5
        self.w13 = nn.Parameter(torch.randn(g.experts, 2, g.inter, g.hidden) * g.hidden**-0.5)
        self.w2 = nn.Parameter(torch.randn(g.experts, g.hidden, g.inter) * down)
        self.shared_w1, self.shared_w3 = Linear(g.hidden, g.inter, fp8=True), Linear(g.hidden, g.inter, fp8=True)
        self.shared_w2 = Linear(g.inter, g.hidden, fp8=True, std=down)

    def _swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(min(gate, L)) * clamp(up, -L, L) in FP32; the gate is clamped from above only."""
        limit = self.g.swiglu_limit
        return F.silu(gate.float().clamp(max=limit)) * up.float().clamp(-limit, limit)

    def route(self, x: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [N,hidden], ids [N] -> scores FP32 [N,E], expert ids [N,topk], route weights FP32 [N,topk]."""
        z = F.linear(x.float(), self.gate.weight.to(torch.bfloat16).float())
        score = F.softplus(z).sqrt()
        chosen = self.tid2eid[ids] if self.hashed else (score.detach() + self.bias).topk(self.g.topk, -1).indices
        weight = score.gather(1, chosen)
        return score, chosen, weight / weight.sum(-1, keepdim=True) * self.g.route_scale

    def forward(self, x: Tensor, ids: Tensor, quantised: bool) -> tuple[Tensor, Tensor, Tensor]:
        """x [B,S,hidden], ids [B,S] -> (y [B,S,hidden], balance loss [], load [E] as a share of tokens)."""
        g, flat = self.g, x.flatten(0, 1)
        score, chosen, weight = self.route(flat, ids.flatten())
        order = chosen.flatten().argsort(stable=True)
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        count = (chosen[..., None] == torch.arange(g.experts, device=x.device)).sum((0, 1))
        ends, token = count.cumsum(0).to(torch.int32), order // g.topk
        load = count / flat.shape[0]
        share = (score / score.sum(-1, keepdim=True)).mean(0)
        balance = g.experts / g.topk * (load * share).sum()

        w13, w2 = self.w13, self.w2
        if quantised:
            w13, w2 = straight_through(w13, round_fp4(w13)), straight_through(w2, round_fp4(w2))
        xq = activation(flat, quantised)
        rows = _Dispatch.apply(xq, token, inverse, g.topk)
        both = grouped(rows, w13.flatten(1, 2).to(x.dtype).transpose(1, 2), ends)
        hidden = self._swiglu(both[:, : g.inter], both[:, g.inter :]) * weight.flatten()[order][:, None]
        out = grouped(activation(hidden.to(x.dtype), quantised), w2.to(x.dtype).transpose(1, 2), ends)
        y = _Combine.apply(out, token, inverse, g.topk)

        hidden = self._swiglu(self.shared_w1(xq, quantised), self.shared_w3(xq, quantised)).to(x.dtype)
        y = y + self.shared_w2(activation(hidden, quantised), quantised)
        return y.view(x.shape), balance, load


def grouped(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Row blocks times their own matrix: rows [M,K] sorted by expert, weight [E,K,N], ends int32 [E] -> [M,N]."""
    if rows.dtype == torch.bfloat16:
        return torch._grouped_mm(rows, weight, offs=ends)
    bounds = [0, *ends.tolist()]
    return torch.cat([rows[a:b] @ w for a, b, w in zip(bounds, bounds[1:], weight, strict=False)])

"""The compressor (section 8) and the lightning indexer (section 9) of the reference page, for whole sequences at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.formats import round_fp4, straight_through
from training.geometry import Geometry
from training.layers import Linear, activation, key_value, rms
from training.rotary import Table, rotate


class Compressor(nn.Module):
    """Softmax-pools every `ratio` tokens into one row. Ratio 4 overlaps: each row sees the previous window's A half too.

    ape F32 [ratio, c*dim]; wkv, wgate BF16 [c*dim, hidden]; norm BF16 [dim]; c = 2 with overlap, else 1.
    """

    def __init__(self, g: Geometry, ratio: int, dim: int, rotate_fp4: bool) -> None:
        super().__init__()
        self.g, self.ratio, self.dim, self.rotate_fp4 = g, ratio, dim, rotate_fp4
        self.overlap = ratio == 4
        width = dim * (2 if self.overlap else 1)
        self.ape = nn.Parameter(torch.randn(ratio, width) * 0.02)
        self.wkv = Linear(g.hidden, width, fp8=False)
        self.wgate = Linear(g.hidden, width, fp8=False, std=0.3 * g.hidden**-0.5)
        self.norm = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor, table: Table, turn: Tensor, quantised: bool) -> Tensor:
        """x [B,S,hidden] (normed attention input), S a multiple of ratio -> rows [B, S/ratio, dim]."""
        r, d = self.ratio, self.dim
        kv = self.wkv(x, quantised).float().unflatten(1, (-1, r))  # [B,T,r,c*d]
        score = self.wgate(x, quantised).float().unflatten(1, (-1, r)) + self.ape
        if self.overlap:
            before = F.pad(kv[:, :-1, :, :d], (0, 0, 0, 0, 1, 0))
            before_score = F.pad(score[:, :-1, :, :d], (0, 0, 0, 0, 1, 0), value=-1e30)
            kv, score = torch.cat([before, kv[..., d:]], 2), torch.cat([before_score, score[..., d:]], 2)
        row = rms((kv * score.softmax(2)).sum(2).to(x.dtype), self.norm, self.g.norm_eps)
        row = rotate(row, (table[0][: x.shape[1] : r], table[1][: x.shape[1] : r]))
        if not self.rotate_fp4:
            return key_value(row, self.g.rope_dim, quantised)
        row = (row.float() @ turn).to(x.dtype)
        return straight_through(row, round_fp4(row)) if quantised else row


class Indexer(nn.Module):
    """Scores the compressed rows for each query; it learns from the attention it stands in for, not from the loss."""

    def __init__(self, g: Geometry) -> None:
        super().__init__()
        self.g = g
        self.wq_b = Linear(g.q_lora, g.index_heads * g.index_dim, fp8=True)
        self.weights_proj = Linear(g.hidden, g.index_heads, fp8=False)
        self.compressor = Compressor(g, 4, g.index_dim, rotate_fp4=True)

    def forward(self, x: Tensor, qr: Tensor, table: Table, turn: Tensor, quantised: bool) -> Tensor:
        """x [B,S,hidden], qr [B,S,q_lora] (both without gradient) -> scores FP32 [B,S,T], future rows included."""
        g = self.g
        q = self.wq_b(activation(qr, quantised), quantised).unflatten(-1, (g.index_heads, g.index_dim))
        q = (rotate(q, (table[0][:, None], table[1][:, None])).float() @ turn).to(x.dtype)
        if quantised:
            q = straight_through(q, round_fp4(q))
        rows = self.compressor(x, table, turn, quantised)
        weight = self.weights_proj(x, quantised).float() * (g.index_dim**-0.5 * g.index_heads**-0.5)
        dots = (q.flatten(1, 2) @ rows.transpose(1, 2)).unflatten(1, (-1, g.index_heads))  # [B,S,heads,T]
        return (dots.float().relu() * weight[..., None]).sum(2)

    def select(self, score: Tensor, visible: Tensor) -> Tensor:
        """Mask [B,S,T] of the index_topk best visible rows (rows that tie with the last one stay in)."""
        score = score.masked_fill(~visible, -1e30)
        if score.shape[-1] <= self.g.index_topk:
            return visible.expand_as(score)
        cut = score.topk(self.g.index_topk, -1).values[..., -1:]
        return visible & (score >= cut)


def indexer_loss(score: Tensor, mass: Tensor, visible: Tensor) -> Tensor:
    """Mean KL from the indexer's softmax to the attention mass on compressed rows, over positions that give them any.

    score, mass: FP32 [B,S,T]; mass sums over heads and carries no gradient.
    """
    total = mass.sum(-1, keepdim=True)
    target = mass / total.clamp_min(1e-9)
    log_q = score.masked_fill(~visible, -1e30).log_softmax(-1)
    kl = (target * (target.clamp_min(1e-9).log() - log_q.clamp_min(-60))).masked_fill(~visible, 0).sum(-1)
    return (kl * (total.squeeze(-1) > 1e-4)).mean()

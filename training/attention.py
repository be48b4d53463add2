"""Attention over a sliding window plus compressed rows, for whole sequences (reference page, section 7)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.compressor import Compressor, Indexer, indexer_loss
from training.geometry import Geometry
from training.layers import Linear, activation, key_value, rms
from training.rotary import Table, rotate


class Attention(nn.Module):
    """Multi-query attention with one shared K=V vector a token, a learned sink a head, and a grouped low-rank output.

    Queries are handled in chunks of one window: a chunk needs only its own and the previous chunk's keys, so the
    sequence length must be a multiple of the window.
    """

    def __init__(self, g: Geometry, layer: int) -> None:
        super().__init__()
        self.g, self.ratio = g, g.ratios[layer]
        self.attn_sink = nn.Parameter(torch.zeros(g.heads))
        self.wq_a = Linear(g.hidden, g.q_lora, fp8=True)
        self.q_norm = nn.Parameter(torch.ones(g.q_lora))
        self.wq_b = Linear(g.q_lora, g.heads * g.head_dim, fp8=True)
        self.wkv = Linear(g.hidden, g.head_dim, fp8=True)
        self.kv_norm = nn.Parameter(torch.ones(g.head_dim))
        self.wo_a = Linear(g.heads * g.head_dim // g.o_groups, g.o_groups * g.o_lora, fp8=True)
        self.wo_b = Linear(g.o_groups * g.o_lora, g.hidden, fp8=True, std=(g.o_groups * g.o_lora * 2 * g.layers) ** -0.5)
        if self.ratio:
            self.compressor = Compressor(g, self.ratio, g.head_dim, rotate_fp4=False)
        if self.ratio == 4:
            self.indexer = Indexer(g)

    def forward(self, x: Tensor, table: Table, turn: Tensor, quantised: bool, sparse: bool) -> tuple[Tensor, Tensor]:
        """x [B,S,hidden] -> (y [B,S,hidden], indexer loss []).

        `sparse` selects rows with the indexer and trains it; without it every visible row is read.
        """
        g, (batch, length, _) = self.g, x.shape
        heads = (table[0][:, None], table[1][:, None])
        xq = activation(x, quantised)
        qr = rms(self.wq_a(xq, quantised), self.q_norm, g.norm_eps)
        q = self.wq_b(activation(qr, quantised), quantised).unflatten(-1, (g.heads, g.head_dim))
        q = rotate(rms(q, None, g.norm_eps), heads)
        kv = rotate(rms(self.wkv(xq, quantised), self.kv_norm, g.norm_eps), table)
        kv = key_value(kv, g.rope_dim, quantised)
        rows = score = visible = None
        if self.ratio:
            rows = self.compressor(x, table, turn, quantised)
            ends = torch.arange(1, rows.shape[1] + 1, device=x.device) * self.ratio
            visible = ends[None, None] <= torch.arange(1, length + 1, device=x.device)[None, :, None]  # [1,S,T]
        chosen = visible
        if self.ratio == 4 and sparse:
            score = self.indexer(x.detach(), qr.detach(), table, turn, quantised)
            chosen = self.indexer.select(score.detach(), visible)
        o, mass = self._attend(q, kv, rows, chosen, with_mass=score is not None)
        loss = indexer_loss(score, mass, visible) if score is not None else x.new_zeros((), dtype=torch.float32)
        o = rotate(o, heads, inverse=True).reshape(batch, length, g.o_groups, -1)
        wo_a = self.wo_a.stored(quantised, x.dtype).view(g.o_groups, g.o_lora, -1)
        z = torch.einsum("bsgk,grk->bsgr", o, wo_a).flatten(2)
        return self.wo_b(activation(z, quantised), quantised), loss

    def _attend(
        self, q: Tensor, kv: Tensor, rows: Tensor | None, chosen: Tensor | None, with_mass: bool
    ) -> tuple[Tensor, Tensor | None]:
        """q [B,S,H,d], kv [B,S,d], rows [B,T,d], chosen bool [.,S,T] -> (o [B,S,H,d], attention mass on rows [B,S,T])."""
        g, (batch, length, heads, dim) = self.g, q.shape
        w, chunks, scale = g.window, length // g.window, dim**-0.5
        cut = kv.view(batch, chunks, w, dim)
        near = torch.cat([F.pad(cut[:, :-1], (0, 0, 0, 0, 1, 0)), cut], 2)  # [B,chunks,2w,d]
        i, j = torch.arange(w, device=q.device)[:, None], torch.arange(2 * w, device=q.device)[None]
        inside = (j > i) & (j <= i + w)
        inside = inside[None] & ((j >= w) | (torch.arange(chunks, device=q.device)[:, None, None] > 0))  # [chunks,w,2w]
        s = (q.reshape(batch, chunks, w * heads, dim) @ near.transpose(2, 3)).view(batch, chunks, w, heads, 2 * w).float() * scale
        s = s.masked_fill(~inside[None, :, :, None], -1e30).reshape(batch, length, heads, 2 * w)
        sink = self.attn_sink.float()[:, None]
        top = torch.maximum(s.amax(-1, keepdim=True), sink)
        if rows is not None:
            far = (q.reshape(batch, length * heads, dim) @ rows.transpose(1, 2)).view(batch, length, heads, -1).float() * scale
            far = far.masked_fill(~chosen[:, :, None], -1e30)
            top = torch.maximum(top, far.amax(-1, keepdim=True))
        top = top.detach()
        e = (s - top).exp()
        total = e.sum(-1, keepdim=True) + (sink - top).exp()
        if rows is not None:
            e_far = (far - top).exp()
            total = total + e_far.sum(-1, keepdim=True)
        p = (e / total).to(q.dtype).view(batch, chunks, w * heads, 2 * w)
        o = (p @ near).view(batch, length, heads, dim)
        if rows is None:
            return o, None
        p_far = e_far / total
        o = o + (p_far.to(q.dtype).view(batch, length * heads, -1) @ rows).view(batch, length, heads, dim)
        return o, p_far.sum(2).detach() if with_mass else None

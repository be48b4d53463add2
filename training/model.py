"""The decoder for whole sequences, differentiable, with the checkpoint's quantisation in the forward pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.attention import Attention
from training.geometry import Geometry
from training.hyper_connection import HyperConnection, HyperHead
from training.layers import rms
from training.moe import MixtureOfExperts
from training.rotary import Table, hadamard, rope_table


class Mode(NamedTuple):
    """How a forward pass computes.

    quantised: FP8/FP4/BF16 rounding of weights and activations as in the checkpoint. sparse: rows selected by the
    indexer. dropout: share of every sub-layer's output that is zeroed, FP32 []; a tensor, so that compiled code serves
    training and validation alike. dtype: of activations and products.
    """

    quantised: bool = False
    sparse: bool = False
    dropout: Tensor | None = None
    dtype: torch.dtype = torch.bfloat16


INFERENCE = Mode(quantised=True, sparse=True, dtype=torch.float32)


def _drop(y: Tensor, rate: Tensor | None) -> Tensor:
    if rate is None:
        return y
    return y * ((torch.rand(y.shape, device=y.device) >= rate) / (1 - rate)).to(y.dtype)


class Block(nn.Module):
    """Attention and experts, each between hc_pre and hc_post."""

    def __init__(self, g: Geometry, layer: int) -> None:
        super().__init__()
        self.g = g
        self.attn, self.ffn = Attention(g, layer), MixtureOfExperts(g, layer)
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(g.hidden)), nn.Parameter(torch.ones(g.hidden))
        self.hc_attn, self.hc_ffn = HyperConnection(g), HyperConnection(g)

    def forward(self, x: Tensor, ids: Tensor, table: Table, turn: Tensor, mode: Mode) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x [B,S,streams,hidden] -> (x, indexer loss, balance loss, load [E])."""
        y, post, comb = self.hc_attn.pre(x)
        y, index_loss = self.attn(rms(y, self.attn_norm, self.g.norm_eps), table, turn, mode.quantised, mode.sparse)
        x = HyperConnection.post(_drop(y, mode.dropout), x, post, comb)
        y, post, comb = self.hc_ffn.pre(x)
        y, balance, load = self.ffn(rms(y, self.ffn_norm, self.g.norm_eps), ids, mode.quantised)
        return HyperConnection.post(_drop(y, mode.dropout), x, post, comb), index_loss, balance, load


class Output(NamedTuple):
    """hidden [B,S,D] after the final norm; losses summed over layers; load [layers, E]."""

    hidden: Tensor
    index_loss: Tensor
    balance: Tensor
    load: Tensor


class Decoder(nn.Module):
    """Token ids [B,S] -> normed hidden states; `logits` and `token_log_probs` apply the output head."""

    def __init__(self, g: Geometry) -> None:
        super().__init__()
        self.g = g
        self.embed = nn.Parameter(torch.randn(g.vocab, g.hidden) * 0.5)
        self.layers = nn.ModuleList(Block(g, layer) for layer in range(g.layers))
        self.hc_head = HyperHead(g)
        self.norm = nn.Parameter(torch.ones(g.hidden))
        self.head = nn.Parameter(torch.randn(g.vocab, g.hidden) * g.hidden**-0.5)

    def forward(self, ids: Tensor, mode: Mode) -> Output:
        """S must be a multiple of the window and of every ratio; pad on the right, nothing looks ahead."""
        g, length = self.g, ids.shape[1]
        ids = ids.contiguous()  # one layout, so that one compilation of a block serves every caller
        tables = [rope_table(g, compressed, length, ids.device) for compressed in (False, True)]
        turn = hadamard(g.index_dim, ids.device)
        embedded = F.embedding(ids, self.embed.to(torch.bfloat16)).to(mode.dtype)
        x = embedded[:, :, None].expand(-1, -1, g.streams, -1).contiguous()
        index_loss = balance = x.new_zeros((), dtype=torch.float32)
        loads = []
        for block in self.layers:
            x, extra, uneven, load = block(x, ids, tables[block.attn.ratio > 0], turn, mode)
            index_loss, balance = index_loss + extra, balance + uneven
            loads.append(load)
        return Output(rms(self.hc_head(x), self.norm, g.norm_eps), index_loss, balance, torch.stack(loads))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., hidden] -> FP32 [..., vocab]; the product runs in the dtype of `hidden`."""
        return F.linear(hidden, self.head.to(torch.bfloat16).to(hidden.dtype)).float()

    def token_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """log p(target) FP32 [B,S]."""
        logits = self.logits(hidden)
        return logits.gather(-1, targets[..., None]).squeeze(-1) - logits.logsumexp(-1)

    @torch.no_grad()
    def balance_experts(self, load: Tensor, rate: Tensor) -> None:
        """Moves the selection bias of every learned router one step of `rate` [] against its load (auxiliary-loss-free
        balancing)."""
        for block, share in zip(self.layers, load, strict=True):
            if not block.ffn.hashed:
                block.ffn.bias += rate * torch.sign(share.mean() - share)

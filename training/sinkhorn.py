"""Sinkhorn normalisation of the stream-mixing matrices (reference page, section 5, hc_pre).

Forty alternating normalisations of a 4x4 matrix per token are tiny work in very many steps, so on a GPU one Triton
kernel a direction keeps a token's matrix in registers. Elsewhere the plain loop below runs; both are the same function.
"""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # the CPU path needs no Triton
    triton = None


def sinkhorn_loop(logits: Tensor, iters: int, eps: float) -> Tensor:
    """Row softmax plus eps, then a column step, then (row, column) steps, `iters` column steps in all.

    logits: FP32 [..., n, n]; rows are input streams. Returns FP32 of the same shape.
    """
    c = logits.softmax(-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    return c


if triton is not None:

    @triton.jit
    def _entries(tokens, block: tl.constexpr):
        """Offsets [block,4,4] of one block of tokens, and which of them exist."""
        token = tl.program_id(0) * block + tl.arange(0, block)
        place = 4 * tl.arange(0, 4)[:, None] + tl.arange(0, 4)[None, :]
        return token[:, None, None] * 16 + place[None, :, :], (token < tokens)[:, None, None], token

    @triton.jit
    def _forward(logits, out, tokens, eps: tl.constexpr, iters: tl.constexpr, block: tl.constexpr):  # noqa: PLR0917 (Triton passes by position)
        at, live, _ = _entries(tokens, block)
        c = tl.load(logits + at, mask=live, other=0.0)
        c = tl.exp(c - tl.max(c, axis=2, keep_dims=True))
        c = c / tl.sum(c, axis=2, keep_dims=True) + eps
        c = c / (tl.sum(c, axis=1, keep_dims=True) + eps)
        for _ in range(iters - 1):
            c = c / (tl.sum(c, axis=2, keep_dims=True) + eps)
            c = c / (tl.sum(c, axis=1, keep_dims=True) + eps)
        tl.store(out + at, c, mask=live)

    @triton.jit
    def _backward(logits, grad, out, sums, tokens, eps: tl.constexpr, iters: tl.constexpr, block: tl.constexpr):  # noqa: PLR0917
        """Runs forward again, writing every normaliser to `sums` [steps, tokens, 4], then walks back.

        With y = x / s and s = sum(x) + eps along an axis: dx = (dy - sum(dy * y)) / s, and x = y * s.
        """
        at, live, token = _entries(tokens, block)
        column = token[:, None, None] * 4 + tl.arange(0, 4)[None, None, :]
        row = token[:, None, None] * 4 + tl.arange(0, 4)[None, :, None]
        c = tl.load(logits + at, mask=live, other=0.0)
        c = tl.exp(c - tl.max(c, axis=2, keep_dims=True))
        soft = c / tl.sum(c, axis=2, keep_dims=True)
        c = soft + eps
        s = tl.sum(c, axis=1, keep_dims=True) + eps
        tl.store(sums + column, s, mask=live)
        c = c / s
        for i in range(iters - 1):
            by_row = tl.sum(c, axis=2, keep_dims=True) + eps
            tl.store(sums + (2 * i + 1) * tokens * 4 + row, by_row, mask=live)
            c = c / by_row
            by_column = tl.sum(c, axis=1, keep_dims=True) + eps
            tl.store(sums + (2 * i + 2) * tokens * 4 + column, by_column, mask=live)
            c = c / by_column
        tl.debug_barrier()  # the loads below may fall to other threads than the stores above
        d = tl.load(grad + at, mask=live, other=0.0)
        for back in range(iters - 1):
            i = iters - 2 - back
            by_column = tl.load(sums + (2 * i + 2) * tokens * 4 + column, mask=live, other=1.0)
            d = (d - tl.sum(d * c, axis=1, keep_dims=True)) / by_column
            c = c * by_column
            by_row = tl.load(sums + (2 * i + 1) * tokens * 4 + row, mask=live, other=1.0)
            d = (d - tl.sum(d * c, axis=2, keep_dims=True)) / by_row
            c = c * by_row
        s = tl.load(sums + column, mask=live, other=1.0)
        d = (d - tl.sum(d * c, axis=1, keep_dims=True)) / s
        d = soft * (d - tl.sum(d * soft, axis=2, keep_dims=True))
        tl.store(out + at, d, mask=live)

    _BLOCK = 64

    @torch.library.triton_op("training::sinkhorn", mutates_args={})
    def _sinkhorn(logits: Tensor, iters: int, eps: float) -> Tensor:
        logits, tokens = logits.contiguous(), logits.numel() // 16
        out = torch.empty_like(logits)
        torch.library.wrap_triton(_forward)[(triton.cdiv(tokens, _BLOCK),)](logits, out, tokens, eps, iters, _BLOCK)
        return out

    @torch.library.triton_op("training::sinkhorn_backward", mutates_args={})
    def _sinkhorn_backward(logits: Tensor, grad: Tensor, iters: int, eps: float) -> Tensor:
        logits, grad, tokens = logits.contiguous(), grad.contiguous(), logits.numel() // 16
        out, sums = torch.empty_like(logits), logits.new_empty((2 * iters - 1) * tokens * 4)
        torch.library.wrap_triton(_backward)[(triton.cdiv(tokens, _BLOCK),)](logits, grad, out, sums, tokens, eps, iters, _BLOCK)
        return out

    def _save(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.iters, ctx.eps = inputs[1], inputs[2]

    _sinkhorn.register_autograd(
        lambda ctx, grad: (_sinkhorn_backward(ctx.saved_tensors[0], grad, ctx.iters, ctx.eps), None, None), setup_context=_save
    )


def sinkhorn(logits: Tensor, iters: int, eps: float) -> Tensor:
    """`sinkhorn_loop`, by kernel where the tensor is on a GPU and the matrices are 4x4."""
    if logits.is_cuda and triton is not None and logits.shape[-2:] == (4, 4):
        return _sinkhorn(logits, iters, eps)
    return sinkhorn_loop(logits, iters, eps)

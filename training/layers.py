"""Small building blocks: linear layers with their storage format, and RMS norm (reference page, sections 3 to 5)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.formats import round_fp8, round_fp8_weight, straight_through


class Linear(nn.Module):
    """y = W x without bias. `fp8` says how the weight is stored: E4M3 tiles, or plain BF16.

    The caller quantises the activation, because several linears share one input.
    """

    def __init__(self, inputs: int, outputs: int, fp8: bool, std: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * (std or inputs**-0.5))
        self.fp8 = fp8

    def stored(self, quantised: bool, dtype: torch.dtype) -> Tensor:
        """The weight as the checkpoint will hold it, if `quantised`."""
        weight = self.weight
        if quantised:
            rounded = round_fp8_weight(weight) if self.fp8 else weight.to(torch.bfloat16).to(weight.dtype)
            weight = straight_through(weight, rounded)
        return weight.to(dtype)

    def forward(self, x: Tensor, quantised: bool) -> Tensor:
        return F.linear(x, self.stored(quantised, x.dtype))


def activation(x: Tensor, quantised: bool, block: int = 128) -> Tensor:
    """Q8_block(x) with straight-through gradient, or x itself."""
    return straight_through(x, round_fp8(x, block)) if quantised else x


def key_value(x: Tensor, rope_dim: int, quantised: bool) -> Tensor:
    """The KV cache's FP8 simulation: Q8_64 of all but the rope dimensions."""
    if not quantised:
        return x
    return torch.cat([activation(x[..., :-rope_dim], True, 64), x[..., -rope_dim:]], -1)


def rms(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps), times the weight if given; FP32 inside."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide if weight is None else wide * weight.to(torch.bfloat16).float()).to(x.dtype)

"""Number formats of the checkpoint (reference page, section 3): rounding to them in training, packing and unpacking.

`round_*` functions return the dequantised value in the input's dtype. `straight_through` makes such a rounding pass
gradients unchanged, which is what quantisation-aware training uses.
"""

from __future__ import annotations

import torch
from torch import Tensor

E4M3_MAX, E2M1_MAX = 448.0, 6.0
_E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def straight_through(value: Tensor, rounded: Tensor) -> Tensor:
    """`rounded` in the forward pass, the identity of `value` in the backward pass."""
    return value + (rounded - value).detach()


def power_scale(largest: Tensor, top: float) -> Tensor:
    """2**ceil(log2(largest / top)) as the official kernel finds it: the exponent of largest * fl(1/top), plus one if
    any mantissa bit is set. Integer arithmetic on the bits, so exact; FP32 in and out."""
    bits = (largest.float() * (1.0 / top)).view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return (exponent << 23).view(torch.float32)


def _round_e2m1(x: Tensor) -> Tensor:
    """|x| <= 6 to the nearest E2M1 value; ties to the even code, which torch.round's ties-to-even gives in each range."""
    size = x.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.round(x / step) * step


def round_fp8(x: Tensor, block: int) -> Tensor:
    """Q8_block: E4M3 with one power-of-two scale per `block` values of the last axis."""
    blocks = x.float().unflatten(-1, (-1, block))
    scale = power_scale(blocks.abs().amax(-1, keepdim=True).clamp_min(1e-4), E4M3_MAX)
    return ((blocks / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).float() * scale).flatten(-2).to(x.dtype)


def round_fp4(x: Tensor, block: int = 32) -> Tensor:
    """Q4_block: E2M1 with one power-of-two scale per `block` values of the last axis."""
    blocks = x.float().unflatten(-1, (-1, block))
    scale = power_scale(blocks.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-126), E2M1_MAX)
    return (_round_e2m1((blocks / scale).clamp(-E2M1_MAX, E2M1_MAX)) * scale).flatten(-2).to(x.dtype)


def _tiles(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[out,in] as [out/128, 128, in/128, 128] and its tile scales. Both sizes must be multiples of 128."""
    rows, columns = weight.shape
    tiles = weight.float().view(rows // 128, 128, columns // 128, 128)
    return tiles, power_scale(tiles.abs().amax((1, 3), keepdim=True).clamp_min(1e-10), E4M3_MAX)


def round_fp8_weight(weight: Tensor) -> Tensor:
    """E4M3 with one scale per 128x128 tile of a matrix [out,in]."""
    tiles, scale = _tiles(weight)
    return ((tiles / scale).to(torch.float8_e4m3fn).float() * scale).view(weight.shape).to(weight.dtype)


def pack_fp8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """-> (E4M3 [out,in], E8M0 [out/128, in/128])."""
    tiles, scale = _tiles(weight)
    code = (tiles / scale).to(torch.float8_e4m3fn).view(weight.shape)
    return code, scale[:, 0, :, 0].to(torch.float8_e8m0fnu)


def unpack_fp8(code: Tensor, scale: Tensor) -> Tensor:
    """FP32 [out,in] of an FP8 weight; ragged edge tiles allowed."""
    wide = scale.float().repeat_interleave(128, 0)[: code.shape[0]].repeat_interleave(128, 1)[:, : code.shape[1]]
    return code.float() * wide


def pack_fp4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """-> (I8 [out, in/2] with the even column in the low nibble, E8M0 [out, in/32])."""
    blocks = weight.float().unflatten(-1, (-1, 32))
    scale = power_scale(blocks.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-126), E2M1_MAX)
    value = _round_e2m1((blocks / scale).clamp(-E2M1_MAX, E2M1_MAX))
    code = torch.bucketize(value.abs(), _E2M1.to(value.device)) + 8 * ((value < 0).long())
    code = code.flatten(-2).to(torch.uint8)
    return (code[..., 0::2] | (code[..., 1::2] << 4)).view(torch.int8), scale.squeeze(-1).to(torch.float8_e8m0fnu)


def unpack_fp4(packed: Tensor, scale: Tensor) -> Tensor:
    """FP32 [out,in] of an FP4 weight."""
    byte = packed.view(torch.uint8).long()
    code = torch.stack([byte & 15, byte >> 4], -1).flatten(-2)
    value = _E2M1.to(packed.device)[code & 7] * torch.where(code > 7, -1.0, 1.0)
    return value * scale.float().repeat_interleave(32, -1)

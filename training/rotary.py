"""Rotary embedding (reference page, section 6): adjacent pairs of the last `rope_dim` dimensions, YaRN in compressing layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from training.geometry import Geometry

Table = tuple[Tensor, Tensor]  # cos, sin: FP32 [positions, rope_dim/2]


def rope_table(g: Geometry, compressed: bool, positions: int, device: torch.device) -> Table:
    """Angles p * theta_k, FP32. Compressed layers use the larger base with YaRN and no magnitude factor."""
    dim, base = g.rope_dim, g.compress_rope_theta if compressed else g.rope_theta
    theta = base ** (-torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim)
    if compressed and g.yarn_factor != 1:

        def corner(turns: float) -> float:
            return dim * math.log(g.yarn_original / (2 * math.pi * turns)) / (2 * math.log(base))

        low, high = max(math.floor(corner(32)), 0), min(math.ceil(corner(1)), dim - 1)
        pair = torch.arange(dim // 2, dtype=torch.float32, device=device)
        ramp = ((pair - low) / (high - low if high > low else 0.001)).clamp(0, 1)
        theta = theta / g.yarn_factor * ramp + theta * (1 - ramp)
    angle = torch.outer(torch.arange(positions, dtype=torch.float32, device=device), theta)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, table: Table, inverse: bool = False) -> Tensor:
    """Rotates the last rope_dim dimensions of x; cos and sin must broadcast to x[..., :rope_dim/2]."""
    cos, sin = table
    width = 2 * cos.shape[-1]
    pairs = x[..., -width:].float().unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    sin = -sin if inverse else sin
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)
    return torch.cat([x[..., :-width], turned], -1)


def hadamard(size: int, device: torch.device) -> Tensor:
    """Sylvester's Hadamard matrix times size**-0.5, FP32 [size,size]."""
    matrix = torch.ones(1, 1, device=device)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
    return matrix * size**-0.5

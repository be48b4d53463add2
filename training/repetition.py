"""Pseudo-repetitive rows, and a loss that makes each repetition less likely than the one before it.

A row of training text is cut and its last tokens stand again and again to the end. What the decoder should learn from
such a row is the opposite of copying (Xu et al., "Learning to Break the Loop", 2022).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Repetitive(NamedTuple):
    """rows int64 [R,length+1]; lag int64 [R,1], the period; counted bool [R,length]: targets that repeat, the first eight
    periods of them."""

    rows: Tensor
    lag: Tensor
    counted: Tensor


def repeat_ends(
    rows: Tensor, draw: torch.Generator, lag: tuple[int, int] = (2, 40), before: tuple[int, int] = (8, 72)
) -> Repetitive:
    """Cuts each row int64 [R,length+1] after a prefix and repeats the prefix's last `lag` tokens until the end.

    lag, before: least and, excluded, most tokens of the period and of what stands before it.
    """
    (count, size), device = rows.shape, rows.device
    period = torch.randint(*lag, (count, 1), generator=draw, device=device)
    prefix = period + torch.randint(*before, (count, 1), generator=draw, device=device)
    at = torch.arange(size, device=device)[None]
    source = torch.where(at < prefix, at, prefix - period + (at - prefix) % period)
    counted = (at >= prefix) & (at < prefix + 8 * period)
    return Repetitive(rows.gather(1, source), period, counted[:, 1:])


def against(p: Tensor, where: Tensor) -> Tensor:
    """-log(1 - p) where marked, else 0; finite for a p of 1 too. p FP32, where bool of one shape."""
    return -torch.log1p(-p.clamp(max=1 - 1e-4)) * where


def repetition_loss(log_prob: Tensor, lag: Tensor, counted: Tensor, fall: float = 0.5) -> Tensor:
    """-log(1 - |p - fall * p one period before|) where counted, else 0, the earlier p without gradient.

    log_prob: FP32 [R,length] of the targets.
    """
    p = log_prob.exp()
    earlier = (torch.arange(p.shape[1], device=p.device)[None] - lag).clamp_min(0)
    return against((p - fall * p.detach().gather(1, earlier)).abs(), counted)

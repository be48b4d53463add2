"""Muon for the weight matrices, AdamW for everything else.

Muon orthogonalises the momentum of every matrix (Newton-Schulz iteration), so all its directions move by the same
amount. Matrices of one shape, the experts above all, are handled as one batch.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor, nn

from training.model import Decoder


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrices, roughly: singular values end between 0.7 and 1.2. [n, rows, columns] in BF16."""
    a, b, c = 3.4445, -4.7750, 2.0315  # quintic of the public Muon implementation
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon:
    """Nesterov momentum, orthogonalised; the step is lr * sqrt(max(1, rows/columns)), decay is decoupled.

    `lr` is a tensor [] on the parameters' device, so that a captured step sees it change.
    """

    def __init__(self, parameters: list[nn.Parameter], momentum: float = 0.95, decay: float = 0.01) -> None:
        self.momentum, self.decay, self.lr = momentum, decay, torch.zeros((), device=parameters[0].device)
        groups: dict[tuple[int, int], list[nn.Parameter]] = defaultdict(list)
        for parameter in parameters:
            groups[tuple(parameter.shape[-2:])].append(parameter)
        self._groups = list(groups.values())
        self._moving = [
            torch.zeros_like(torch.cat([p.flatten(0, -3) if p.dim() > 2 else p[None] for p in group]).detach())
            for group in self._groups
        ]

    @torch.no_grad()
    def step(self) -> None:
        for group, moving in zip(self._groups, self._moving, strict=True):
            gradient = torch.cat([p.grad.flatten(0, -3) if p.dim() > 2 else p.grad[None] for p in group])
            moving.lerp_(gradient, 1 - self.momentum)
            update = orthogonalise(gradient.lerp(moving, self.momentum)).float()
            rows, columns = update.shape[1:]
            counts = [p.numel() // (rows * columns) for p in group]
            update *= -self.lr * max(1.0, rows / columns) ** 0.5
            pieces = [u.view(p.shape) for u, p in zip(update.split(counts), group, strict=True)]
            torch._foreach_mul_(group, 1 - self.lr * self.decay)
            torch._foreach_add_(group, pieces)

    def state_dict(self) -> list[Tensor]:
        return self._moving

    def load_state_dict(self, state: list[Tensor]) -> None:
        for moving, saved in zip(self._moving, state, strict=True):
            moving.copy_(saved)


def split_parameters(model: Decoder) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(matrices for Muon, the rest). Router, indexer head weights, embeddings, mixers and vectors are the rest."""
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        matrix = (
            parameter.dim() >= 2
            and name.startswith("layers.")
            and not any(part in name for part in ("hc_", ".ape", ".gate.weight", "weights_proj"))
        )
        (matrices if matrix else rest).append(parameter)
    return matrices, rest


class Optimizer:
    """Both optimisers under one learning-rate factor.

    Args:
        muon_lr, adam_lr: peak rates. `muon_lr` 0 gives every parameter to AdamW.
        decay, adam_decay: decoupled decay a step and rate, of Muon's matrices and of the embedding and head.
    """

    def __init__(self, model: Decoder, muon_lr: float, adam_lr: float, decay: float, adam_decay: float = 0.0) -> None:
        matrices, rest = split_parameters(model)
        words = [model.embed, model.head]
        others = [p for p in rest if all(p is not word for word in words)]
        self.peak = muon_lr, adam_lr
        self.muon = Muon(matrices, decay=decay) if muon_lr else None
        groups = [{"params": others, "weight_decay": 0.0}, {"params": words, "weight_decay": adam_decay}]
        if not muon_lr:
            groups.append({"params": matrices, "weight_decay": 0.1})
        graphed = next(model.parameters()).is_cuda
        self._adam_lr = torch.zeros((), device=next(model.parameters()).device)
        self.adam = torch.optim.AdamW(groups, lr=self._adam_lr, betas=(0.9, 0.95), fused=graphed, capturable=graphed)

    def set_factor(self, factor: float) -> None:
        """From here on `step` moves at `factor` times the peak rates."""
        self._adam_lr.fill_(self.peak[1] * factor)
        if self.muon:
            self.muon.lr.fill_(self.peak[0] * factor)

    def step(self) -> None:
        """One update from the parameters' gradients; never waits for the device."""
        self.adam.step()
        if self.muon:
            self.muon.step()

    def state_dict(self) -> dict:
        return {"adam": self.adam.state_dict(), "muon": self.muon.state_dict() if self.muon else []}

    def load_state_dict(self, state: dict) -> None:
        self.adam.load_state_dict(state["adam"])
        for group in self.adam.param_groups:  # loading put copies there
            group["lr"] = self._adam_lr
        if self.muon:
            self.muon.load_state_dict(state["muon"])

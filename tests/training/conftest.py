"""A tiny decoder of every layer kind. Its imports wait for a test that needs them: torch is an extra of the project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # `training` is no installed package: the product does not ship it

if TYPE_CHECKING:
    from training.geometry import Geometry
    from training.model import Decoder


@pytest.fixture(scope="session")
def tiny() -> Geometry:
    """Every layer kind at the smallest widths the formats allow: window 8, HCA rate 8, a top-k that cuts."""
    from training.geometry import Geometry

    return Geometry(
        vocab=64,
        hidden=128,
        ratios=(0, 4, 8, 4),
        heads=2,
        head_dim=128,
        q_lora=128,
        o_groups=2,
        o_lora=64,
        window=8,
        experts=8,
        topk=3,
        hash_layers=2,
        index_heads=8,
        index_topk=3,
        swiglu_limit=0.5,
        yarn_original=64,
    )


@pytest.fixture(scope="session")
def decoder(tiny: Geometry) -> Decoder:
    """Random weights with live sinks, biases and mixers, rounded to what the checkpoint stores as BF16."""
    import torch

    from training.model import Decoder

    torch.manual_seed(3)
    model = Decoder(tiny)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "sink" in name:
                parameter.normal_()
            elif name.endswith("norm"):
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif ".hc_" in name and name.endswith("scale"):
                parameter.fill_(1.0)
            parameter.copy_(parameter.to(torch.bfloat16))
        for block in model.layers:
            if not block.ffn.hashed:
                block.ffn.bias.normal_(std=0.3)
    return model.eval()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A tokens.npz of periodic streams over the tiny vocabulary: easy to learn, different in each."""
    import numpy as np

    draw, path = np.random.default_rng(4), tmp_path / "tokens.npz"
    names = ("main_en", "main_zh", "extra_en", "extra_zh", "heldout_en", "heldout_zh")
    np.savez(
        path, **{name: np.resize(draw.integers(2, 64, 5 + i), 400 + 40 * i).astype(np.uint16) for i, name in enumerate(names)}
    )
    return path

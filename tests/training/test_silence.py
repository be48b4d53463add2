"""Rows of the head for tokens that no text holds."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training.batches import STREAMS, Windows  # noqa: E402
from training.model import INFERENCE  # noqa: E402
from training.silence import NATS, rare_tokens, silence  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from training.model import Decoder


def test_tokens_are_counted_over_all_training_streams(tmp_path: Path):
    streams = {name: np.tile(np.array([3, 3, 4], dtype=np.uint16), 10) for name in STREAMS}
    heldout = {name: np.full(90, 6, dtype=np.uint16) for name in ("heldout_en", "heldout_zh")}
    np.savez(tmp_path / "tokens.npz", **streams, **heldout)
    windows = Windows(tmp_path / "tokens.npz", 16, torch.device("cpu"), 1, (1, 1, 1, 1))
    assert rare_tokens(windows, 8, 50).tolist() == [0, 1, 2, 4, 5, 6, 7]


def test_rare_tokens_lose_their_probability_and_others_keep_their_scores(decoder: Decoder):
    model, rare = copy.deepcopy(decoder), torch.tensor([7, 20])
    windows = torch.randint(2, 64, (40, 16), generator=torch.Generator().manual_seed(1))
    before = decoder(windows, INFERENCE).hidden
    mean, deviation = silence(model, rare, windows)
    after = model(windows, INFERENCE).hidden
    assert torch.equal(before, after)
    kept = [token for token in range(64) if token not in (7, 20)]
    old, new = decoder.logits(before), model.logits(after)
    assert torch.equal(old[..., kept], new[..., kept])
    gap = new[..., rare] - old.logsumexp(-1, keepdim=True)
    assert mean == pytest.approx(-NATS, abs=1.5)  # random hidden states fit a constant less well than trained ones
    assert gap.mean().item() == pytest.approx(mean, abs=0.1)
    assert gap.std().item() == pytest.approx(deviation, abs=0.1)
    assert deviation < 5

"""Checkpoints of real geometry: the decoder opens them, states stay in range, and routes differ between tokens and layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from layouts import flash_config, tiny_config

import kernels
from benchmarks import synthetic


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The random maker at the tiny geometry's widths; the real ones take half a minute."""
    monkeypatch.setattr(synthetic, "flash_config", tiny_config)
    return synthetic.write_random_flash(tmp_path / "random", layers=3, experts=16, vocabulary=300)


def test_random_layers_are_decoded_in_range(small: Path) -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(small))
    asked = kernels.Intervention(capture=("route", "post_mhc"))
    [result] = decoder.step([kernels.Row(decoder.new_state(), list(range(2, 14)), asked)])
    assert 0.1 < np.std(result.logits) < 100
    assert 0.1 < np.abs(result.captures["post_mhc"]).max() < 1e4
    chosen = result.captures["route"]  # [tokens, layers, k]
    assert all(len({tuple(route) for route in chosen[:, layer].tolist()}) > 1 for layer in range(3))


def test_random_checkpoints_follow_from_their_seed(small: Path, tmp_path: Path) -> None:
    again = synthetic.write_random_flash(tmp_path / "again", layers=3, experts=16, vocabulary=300)
    other = synthetic.write_random_flash(tmp_path / "other", layers=3, experts=16, vocabulary=300, seed=1)
    digests = [kernels.Checkpoint.open(directory).content_digest() for directory in (small, again, other)]
    assert digests[0] == digests[1] != digests[2]


def test_quantised_deviates_are_normal() -> None:
    """Mean 0 and the deviation that the scales are chosen for."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = synthetic._fp4_pairs()
    low = np.where(codes & 8, -values[codes & 7], values[codes & 7])
    assert abs(low.mean()) < 0.01
    assert low.std() == pytest.approx(synthetic.FP4_DEVIATION, rel=0.05)


def test_a_token_reads_eleven_gigabytes_of_flash() -> None:
    """Reference section 1: 13 billion active parameters, routed experts in FP4, most of the rest in FP8."""
    dense, routed = synthetic.token_bytes(flash_config())
    assert routed == 43 * 6 * 3 * 2048 * 4096 * 17 // 32
    assert 7e9 < dense < 8e9

"""Helpers for tests that compare bits: deterministic token sequences, and what a row gave as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import kernels

ALL_CAPTURES = tuple(sorted(kernels.CAPTURES))


def tokens(length: int, seed: int) -> list[int]:
    """Pseudo-random token IDs below 8192, by SHA-256 of (seed, index): the same with every library version."""
    return [int.from_bytes(hashlib.sha256(f"{seed}:{i}".encode()).digest()[:4], "little") % 8192 for i in range(length)]


def feed(decoder: kernels.Decoder, state: kernels.State, ids: Sequence[int], chunk: int | None = None) -> kernels.StepResult:
    """Feed ids in chunks (None: all at once); the last step's result."""
    size = chunk or len(ids)
    result = None
    for begin in range(0, len(ids), size):
        (result,) = decoder.step([kernels.Row(state, ids[begin : begin + size])])
    assert result is not None
    return result


def digest(result: kernels.StepResult, state: kernels.State) -> str:
    """SHA-256 over everything a row gave: logits, captures and the state after it."""
    sha = hashlib.sha256(result.logits.tobytes())
    for name in sorted(result.captures):
        sha.update(name.encode() + result.captures[name].tobytes())
    sha.update(state.serialise())
    return sha.hexdigest()

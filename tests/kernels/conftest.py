"""Shared by the decoder's tests: the embedded checkpoint and decoders on it."""

from __future__ import annotations

import pytest

import kernels


@pytest.fixture(scope="session")
def mote() -> kernels.Checkpoint:
    """The embedded checkpoint."""
    return kernels.Checkpoint.open(kernels.builtin_checkpoint())


@pytest.fixture(scope="session")
def decoder(mote: kernels.Checkpoint) -> kernels.Decoder:
    """One thread, official numerics: what every other way of running is compared with."""
    return kernels.Decoder(mote)

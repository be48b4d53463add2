"""The weights of a checkpoint as a digest, where reading them takes seconds."""

from __future__ import annotations

import kernels

CONTENT_BYTES = 1 << 30
"""A checkpoint whose payload is no longer than this is told apart by its weights too, which takes seconds; a longer one by its
headers and lengths alone, since to read it takes longer than many a run.
"""


def content_of(checkpoint: kernels.Checkpoint) -> str | None:
    """Digest of all files of a checkpoint, or None above CONTENT_BYTES. Reads them whole."""
    return checkpoint.content_digest() if checkpoint.total_bytes <= CONTENT_BYTES else None

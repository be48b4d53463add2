"""SHA-256 digests that tables hold: which bytes are hashed is part of the contract (study 3.4, 4.5; docs/formats.md).

Bits are hashed as they are: -0.0 and +0.0 differ, NaN payloads too, nothing is padded, byte order is little-endian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def tokens_sha256(tokens: Sequence[int]) -> str:
    """Hex digest of the ordered token IDs: their decimal numbers joined by commas, ASCII, no spaces (study 3.4)."""
    return hashlib.sha256(",".join(str(int(token)) for token in tokens).encode()).hexdigest()


def floats_sha256(values: npt.NDArray[np.float32]) -> str:
    """Hex digest of an FP32 array of any shape: its values in row-major order, 4 bytes each. TypeError for another dtype."""
    if values.dtype != np.float32:
        raise TypeError(f"float32 values, not {values.dtype}")
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f4").tobytes()).hexdigest()


def routes_sha256(routes: npt.NDArray[np.int32]) -> str:
    """Hex digest of routes int32 [steps, layers, k]: each selection's expert ids ascending, row-major, 4 bytes an id.

    A selection is a set (study 3.2.1), because the native reference adds in ascending expert id: two orders of it are one route.
    """
    if routes.dtype != np.int32 or routes.ndim != 3:
        raise TypeError(f"int32 [steps, layers, k] routes, not {routes.dtype} with {routes.ndim} axes")
    return hashlib.sha256(np.ascontiguousarray(np.sort(routes, axis=-1), dtype="<i4").tobytes()).hexdigest()

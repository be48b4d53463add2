"""The unit of work, its key, and what executing it gives.

A key is the SHA-256 of a unit's meaning and nothing else (never of host, threads, attempt, batch or actor), so the same work
has the same key on every machine and in every retry; the pre-image is stored beside it so that a stale unit can say which field
changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing that is leased, committed and retried.

    meaning: JSON-able fields that decide the result's bits: protocol and parameters, prompt ID, prompt SHA-256, horizon,
    checkpoint and tokenizer identity, numerics, schema version. payload: what execution needs but the key must not depend on
    twice (the prompt text, which `meaning` binds by its hash). group: units with equal group share a prefix and go to one actor
    as one batch. key: SHA-256 (hex) of the pre-image.
    """

    stage: str
    prompt_id: str
    meaning: Mapping[str, Any]
    payload: Mapping[str, Any] = field(default_factory=dict, compare=False)
    group: str = ""
    key: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hashlib.sha256(self.preimage.encode()).hexdigest())

    @property
    def preimage(self) -> str:
        """Canonical JSON of `meaning`: sorted keys, no spaces, UTF-8, no NaN. Not kept: a plan may have 100,000 units."""
        return json.dumps(self.meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class UnitResult:
    """What a unit gave: for each table of its protocol the rows, in a fixed order, without anything of host, time or attempt."""

    key: str
    tables: Mapping[str, pa.Table]


@dataclass(frozen=True)
class Lease:
    """A batch of units handed to one worker as one call."""

    lease_id: int
    units: Sequence[Unit]

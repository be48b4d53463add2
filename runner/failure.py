"""A unit that is set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Failure:
    """What happened last to a unit, in one line and in full, and how often it was tried."""

    unit: str
    prompt_id: str
    kind: str
    error: str
    detail: str
    strikes: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Failure:
        """Raises TypeError for fields that are missing, unknown or of another type."""
        failure = cls(**record)
        texts = (failure.unit, failure.prompt_id, failure.kind, failure.error, failure.detail)
        if not all(isinstance(text, str) for text in texts) or not isinstance(failure.strikes, int):
            raise TypeError("a field of another type")
        return failure

    def told(self, stage: str) -> str:
        """What a message says of it; a failure does not know its stage."""
        return f"prompt {self.prompt_id} in stage {stage}: {self.kind} after {self.strikes} tries: {self.error}"

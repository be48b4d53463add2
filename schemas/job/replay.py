"""Replay jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from schemas.job.common import Horizon, Job


class ReplayJob(Job):
    """Native replay (study 3.1): every prompt is executed twice, differently cut. Nothing is drawn at random."""

    protocol: Literal["replay"] = Field(description="replay")
    horizon: Horizon = 8
    chunk: int = Field(
        default=1,
        ge=1,
        le=65_536,
        description="an integer 1..65536: prompt tokens the replay feeds at once; the reference pass feeds all",
    )

    def parameters(self) -> Mapping[str, Any]:
        return {"horizon": self.horizon, "chunk": self.chunk}

"""Sweep jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.job.common import ForkPoint, Job, Schemes


class SweepJob(Job):
    """Single-layer trace-freeze-fork over all orders (study 2.4.1, 2.6, 3.2). Nothing is drawn at random."""

    protocol: Literal["sweep"] = Field(description="sweep")
    fork: ForkPoint = Field(default=ForkPoint(), description="a mapping of layer, event")
    schemes: Schemes = ("A", "B")
    # At least 2: the first generated token precedes the fork and is the same on every branch.
    horizon: Annotated[int, Field(ge=2, le=65_536, description="an integer 2..65536: generated tokens")] = 8
    block: int = Field(
        default=60,
        ge=1,
        le=40_320,
        description="an integer 1..40320: orders (of scheme B: classes) in a unit; changes no row but for the unit it names",
    )

    def parameters(self) -> Mapping[str, Any]:
        return {"fork": self.fork.model_dump(), "horizon": self.horizon}

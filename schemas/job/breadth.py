"""Breadth jobs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from schemas.job.common import ForkPoint, Job


class Fork(ForkPoint):
    """The fork, and the branch that is injected there."""

    scheme: Literal["B"] = Field(default="B", description="B")
    select: Literal["max_post_mhc_linf"] = Field(
        default="max_post_mhc_linf",
        description="max_post_mhc_linf: the class farthest from native in post-mHC L-infinity, the lowest of equals",
    )


def _increasing(horizons: tuple[int, ...]) -> tuple[int, ...]:
    for index, (before, horizon) in enumerate(pairwise(horizons), start=1):
        if horizon <= before:
            raise PydanticCustomError(
                "increasing",
                "not increasing",
                {"index": index, "found": str(horizon), "allowed": f"more than {before}, the one before it"},
            )
    return horizons


# Strict(False) on the tuple alone: YAML has lists only. Its items stay strict.
# At least 2 tokens: the first generated token precedes the fork and is the same on every branch.
Horizons = Annotated[
    tuple[Annotated[int, Field(ge=2, le=65_536)], ...],
    Field(
        strict=False,
        min_length=1,
        max_length=64,
        description="a list of 1..64 integers 2..65536, strictly increasing, such as [8, 16, 32]",
    ),
    AfterValidator(_increasing),
]


class BreadthJob(Job):
    """Staged breadth (study 2.4.7, 3.5, B.3): the max-L-infinity B branch of one layer, survivors carried to longer horizons.

    Nothing in it is drawn at random; `experiment_seed` is recorded with the run, as in the study, and enters no unit's key.
    """

    protocol: Literal["breadth"] = Field(description="breadth")
    fork: Fork = Field(default=Fork(), description="a mapping of layer, scheme, event, select")
    horizons: Horizons = (8, 16, 32)

    def parameters(self) -> Mapping[str, Any]:
        return {"fork": self.fork.model_dump()}

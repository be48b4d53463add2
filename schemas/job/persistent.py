"""Jobs whose schedules hold at every layer: persistent, canonical, intermediates, propagation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from schemas.job.common import Horizon, Job, Model, RequestSeeds, Scheme, Schemes

STUDY_SCHEMES: tuple[Scheme, ...] = ("P32", "C", "A", "B")

Block = Annotated[
    int, Field(ge=1, le=4096, description="an integer 1..4096: request seeds in a unit; changes no row but for the unit it names")
]


class PersistentJob(Job):
    """Persistent layer-static schedules, paired over schemes (study 2.4.5, 3.6, B.4), drawn from `experiment_seed`."""

    protocol: Literal["persistent"] = Field(description="persistent")
    schemes: Schemes = STUDY_SCHEMES
    request_seeds: RequestSeeds = 64
    horizon: Horizon = 8
    block: Block = 16

    def parameters(self) -> Mapping[str, Any]:
        """Without `experiment_seed`: the references draw nothing, and units that draw name it themselves."""
        return {"schemes": list(self.schemes), "horizon": self.horizon}


class CanonicalJob(Job):
    """The same-mode canonical reference: the identity order at every layer (study 2.4.6, 2.7). Nothing is drawn at random."""

    protocol: Literal["canonical"] = Field(description="canonical")
    schemes: Schemes = STUDY_SCHEMES
    horizon: Horizon = 8

    def parameters(self) -> Mapping[str, Any]:
        return {"schemes": list(self.schemes), "horizon": self.horizon}


class IntermediatesJob(Job):
    """Intermediate values under schedules of one scheme against native (study 3.6, B.5), drawn from `experiment_seed`."""

    protocol: Literal["intermediates"] = Field(description="intermediates")
    scheme: Scheme = Field(default="C", description="P32, C, A, B")
    request_seeds: RequestSeeds = 64
    block: Block = 16

    def parameters(self) -> Mapping[str, Any]:
        return {"scheme": self.scheme, "experiment_seed": self.experiment_seed}


class TracedLayers(Model):
    """Which layers the representative trace looks at (study 3.2.1)."""

    output: int = Field(
        default=2, ge=0, le=1023, description="an integer 0..1023 and less than the checkpoint's layers: MoE output and post-mHC"
    )
    router: int = Field(
        default=3, ge=0, le=1023, description="an integer 0..1023, more than `output` and less than the checkpoint's layers"
    )

    @model_validator(mode="after")
    def _router_is_later(self) -> TracedLayers:
        if self.router <= self.output:
            raise PydanticCustomError(
                "later",
                "not later",
                {"found": f"output {self.output} and router {self.router}", "allowed": "a router layer after the output layer"},
            )
        return self


class PropagationJob(Job):
    """The representative trace of one persistent condition (study 3.2.1), its schedule drawn from `experiment_seed`."""

    protocol: Literal["propagation"] = Field(description="propagation")
    scheme: Scheme = Field(default="B", description="P32, C, A, B")
    request_seed: int = Field(default=0, ge=0, le=2**31 - 1, description="an integer 0..2147483647")
    layers: TracedLayers = Field(default=TracedLayers(), description="a mapping of output, router")
    horizon: Horizon = 8

    def parameters(self) -> Mapping[str, Any]:
        return self.model_dump(include={"scheme", "request_seed", "layers", "horizon", "experiment_seed"})

"""Jobs of the two endpoint substitutions: post_mhc (study 2.4.2, 3.2.2) and persistent_state (study 2.4.3, 3.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from schemas.job.common import ForkPoint, Job


class BranchFork(ForkPoint):
    """The fork, and which class of scheme B is the branch."""

    scheme: Literal["B"] = Field(default="B", description="B")
    structural_class: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="null (`select` chooses) or an integer from 0, less than the classes there are (360 for 6 experts a token)",
    )
    select: Literal["first_separating", "max_linf"] = Field(
        default="first_separating",
        description="first_separating (the lowest class whose tokens separate from native, else as max_linf), "
        "max_linf (the class farthest from native in post-mHC L-infinity, the lowest of equals); it also chooses where the "
        "named class cannot serve",
    )


class _SubstitutionJob(Job):
    fork: BranchFork = Field(default=BranchFork(), description="a mapping of layer, event, scheme, structural_class, select")

    def parameters(self) -> Mapping[str, Any]:
        return self.model_dump(include={"fork", "decode_inputs"})


class PostMhcJob(_SubstitutionJob):
    """Post-mHC endpoint substitution (study 2.4.2). Nothing is drawn at random."""

    protocol: Literal["post_mhc"] = Field(description="post_mhc")
    decode_inputs: int = Field(
        default=8, ge=1, le=4096, description="an integer 1..4096: generated tokens that are processed; one more is predicted"
    )


class PersistentStateJob(_SubstitutionJob):
    """Persistent-state substitution at the decode boundary (study 2.4.3). Nothing is drawn at random."""

    protocol: Literal["persistent_state"] = Field(description="persistent_state")
    decode_inputs: int = Field(
        default=8, ge=2, le=4096, description="an integer 2..4096: generated tokens that are processed, the forked one first"
    )

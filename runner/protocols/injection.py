"""Another order put in place of native at one aggregation, and the state that this must give (study 2.4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

import kernels
from runner.protocols.fork import F32, same_bits
from runner.protocols.trajectory import STEP_CAPTURES, Trajectory, advance
from schemas.errors import ConformanceFinding


@dataclass(frozen=True, eq=False)
class Injection:
    """An order for the forked step of `branch`, at one layer.

    where, name: what a message calls the fork, and the order. expected: the post-mHC state [hc, D] that enumerating it gave;
    None where nothing was enumerated.
    """

    branch: Trajectory
    layer: int
    scheme: Literal["P32", "C", "A", "B"]
    order: int
    where: str
    name: str
    expected: F32 | None = None


def inject(decoder: kernels.Decoder, injections: Sequence[Injection]) -> list[F32]:
    """Run the forked step of all branches together; the post-mHC states [hc, D] that this gives at their layers.

    Raises ConformanceFinding when one is not the state that is expected.
    """
    interventions = [
        kernels.Intervention(aggregation={one.layer: (one.scheme, one.order)}, capture=(*STEP_CAPTURES, "post_mhc"))
        for one in injections
    ]
    results = advance(decoder, [one.branch for one in injections], interventions)
    states = []
    for one, result in zip(injections, results, strict=True):
        state = np.asarray(result.captures["post_mhc"][0, one.layer], dtype=np.float32)
        if one.expected is not None:
            require_enumerated(state, one.expected, one.where, one.name)
        states.append(state)
    return states


def require_enumerated(state: F32, expected: F32, where: str, name: str) -> None:
    """Raises ConformanceFinding unless injecting the order of this name gave the bits that enumerating it gave."""
    if not same_bits(state, expected):
        raise ConformanceFinding(f"{where}: injecting {name} gives another post-mHC state than enumerating it")

"""A frozen MoE aggregation and everything that another order of its additions could have made of it (study 2.4.1, 2.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

import kernels
from schemas.digest import floats_sha256
from schemas.errors import ConformanceFinding

F32 = npt.NDArray[np.float32]

FORK_CAPTURES = ("moe_terms", "moe_shared", "moe_output", "post_attention", "ffn_post", "ffn_comb", "post_mhc")
"""What a step must capture, beside the route, for a Fork to be made of it."""


@dataclass(frozen=True, eq=False)
class Fork:
    """Operands and native results of one aggregation, at one layer for one token.

    experts: int32 [k], router order. terms: FP32 [k, D], router order, gate applied. shared [D]. residual [hc, D], post [hc],
    comb [hc, hc]: the mHC mix. moe_output [D] and post_mhc [hc, D]: what the native path made of them.
    """

    experts: npt.NDArray[np.int32]
    terms: F32
    shared: F32
    residual: F32
    post: F32
    comb: F32
    moe_output: F32
    post_mhc: F32

    @classmethod
    def of(cls, result: kernels.StepResult, layer: int) -> Fork:
        """The fork at `layer` of a step that fed one token and captured FORK_CAPTURES and the route of all layers."""
        at = {name: result.captures[name][0, layer] for name in (*FORK_CAPTURES, "route")}
        return cls(
            experts=at["route"],
            terms=at["moe_terms"],
            shared=at["moe_shared"],
            residual=at["post_attention"],
            post=at["ffn_post"],
            comb=at["ffn_comb"],
            moe_output=at["moe_output"],
            post_mhc=at["post_mhc"],
        )

    def outputs(self, scheme: Literal["native", "P32", "C", "A", "B"], orders: Sequence[int]) -> F32:
        """MoE outputs [len(orders), D]."""
        return kernels.aggregate(self.terms, self.shared, scheme, orders, expert_ids=self.experts.tolist())

    def streams(self, outputs: F32) -> F32:
        """Post-mHC streams [n, hc, D] of MoE outputs [n, D]."""
        return kernels.hc_post(outputs, self.residual, self.post, self.comb)

    def require_native(self, where: str) -> None:
        """Raise ConformanceFinding unless the captured operands give the captured native results bit for bit.

        Otherwise what is enumerated here is not what the decoder computes, and no class could be compared with native. Raises
        ValueError for operands that are not finite, of which scheme B's classes are not proven (study 2.6).
        """
        if not (np.isfinite(self.terms).all() and np.isfinite(self.shared).all()):
            raise ValueError(f"{where}: expert terms that are not finite; the classes of scheme B need finite operands")
        outputs = self.outputs("native", [0])
        if not same_bits(outputs[0], self.moe_output):
            raise ConformanceFinding(f"{where}: the captured expert terms do not add up to the captured native MoE output")
        if not same_bits(self.streams(outputs)[0], self.post_mhc):
            raise ConformanceFinding(f"{where}: the captured mHC mix does not give the captured native post-mHC state")


@dataclass(frozen=True, eq=False)
class Classes:
    """The structural classes of scheme B at a fork (study 2.6), in the order of kernels.structural_classes.

    orders: (lower, higher) rank of each class. streams: post-mHC FP32 [n, hc, D]. linf_output, linf_stream: FP32 [n], largest
    absolute difference of MoE output and streams from native. equals_native: bool [n], the streams have the native bits.
    """

    orders: Sequence[tuple[int, int]]
    streams: F32
    linf_output: F32
    linf_stream: F32
    output_sha256: Sequence[str]
    stream_sha256: Sequence[str]
    equals_native: npt.NDArray[np.bool_]

    @classmethod
    def enumerate(cls, fork: Fork, where: str) -> Classes:
        """All classes. Raises ConformanceFinding when the two orders of a class, which must be exact equals, are not."""
        orders = kernels.structural_classes(len(fork.experts))
        outputs = fork.outputs("B", [low for low, _ in orders])
        swapped = fork.outputs("B", [high for _, high in orders])
        if not same_bits(outputs, swapped):
            raise ConformanceFinding(f"{where}: B orders that differ only in their first two terms give different MoE outputs")
        streams = fork.streams(outputs)
        return cls(
            orders=orders,
            streams=streams,
            linf_output=linf(outputs, fork.moe_output),
            linf_stream=linf(streams, fork.post_mhc),
            output_sha256=[floats_sha256(output) for output in outputs],
            stream_sha256=[floats_sha256(stream) for stream in streams],
            equals_native=np.array([same_bits(stream, fork.post_mhc) for stream in streams]),
        )

    def farthest(self) -> int:
        """The class whose post-mHC state is farthest from native in L-infinity, the lowest of equals (study 2.4.7)."""
        return int(np.argmax(self.linf_stream))


def same_bits(a: F32, b: F32) -> bool:
    """Whether two FP32 arrays of one shape are equal bit for bit: -0.0 is not +0.0, a NaN equals itself."""
    return bool(np.array_equal(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32)))


def linf(values: F32, native: F32) -> F32:
    """FP32 [n]: largest absolute FP32 difference of values [n, ...] from native [...]."""
    largest: F32 = np.abs(values - native).reshape(len(values), -1).max(axis=1)
    return largest

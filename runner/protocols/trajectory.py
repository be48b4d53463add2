"""Greedy continuations, several at a time: prompt processing, then one token a step for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import kernels

STEP_CAPTURES = ("route", "router_margin", "logit_margin")
"""What every step records, of all layers."""


@dataclass(eq=False)
class Trajectory:
    """One continuation. The last of `tokens` was predicted and not yet fed to `state`.

    prompt: its token IDs. tokens: generated token IDs. logit_margins: for each of these, the gap between the two highest logits.
    routes: for each decode step int32 [layers, k], experts in router order. router_margins: the same, FP32 [layers].
    prompt_routes, prompt_margins: the same for the prompt's positions, [positions, layers, k] and [positions, layers].
    """

    state: kernels.State
    prompt: Sequence[int]
    prompt_routes: npt.NDArray[np.int32]
    prompt_margins: npt.NDArray[np.float32]
    tokens: list[int] = field(default_factory=list)
    logit_margins: list[float] = field(default_factory=list)
    routes: list[npt.NDArray[np.int32]] = field(default_factory=list)
    router_margins: list[npt.NDArray[np.float32]] = field(default_factory=list)

    def fork(self) -> Trajectory:
        """An independent continuation from here."""
        return Trajectory(
            self.state.fork(),
            self.prompt,
            self.prompt_routes,
            self.prompt_margins,
            list(self.tokens),
            list(self.logit_margins),
            list(self.routes),
            list(self.router_margins),
        )

    def all_routes(self) -> npt.NDArray[np.int32]:
        """Routes of every processed position, the prompt's included: int32 [positions, layers, k], router order."""
        return np.concatenate([self.prompt_routes, *(step[np.newaxis] for step in self.routes)])

    def router_margin_min(self) -> float:
        """Smallest router margin of every processed position and layer."""
        return float(min(margins.min() for margins in (self.prompt_margins, *self.router_margins)))


def prefill(
    decoder: kernels.Decoder, prompts: Sequence[Sequence[int]], interventions: Sequence[kernels.Intervention] | None = None
) -> list[Trajectory]:
    """Process prompts, all in one step, and emit the first token of each. Natively without `interventions`, which must capture at
    least STEP_CAPTURES of all layers.
    """
    each = interventions or [kernels.Intervention(capture=STEP_CAPTURES)] * len(prompts)
    rows = [kernels.Row(decoder.new_state(), prompt, intervention) for prompt, intervention in zip(prompts, each, strict=True)]
    return [started(row.state, prompt, [result]) for row, prompt, result in zip(rows, prompts, decoder.step(rows), strict=True)]


def started(state: kernels.State, prompt: Sequence[int], results: Sequence[kernels.StepResult]) -> Trajectory:
    """The trajectory of a prompt that was processed in one or more steps with these results, its first token emitted."""
    return Trajectory(
        state,
        prompt,
        np.concatenate([np.asarray(result.captures["route"], dtype=np.int32) for result in results]),
        np.concatenate([np.asarray(result.captures["router_margin"], dtype=np.float32) for result in results]),
        [results[-1].token],
        [float(results[-1].captures["logit_margin"][-1])],
    )


def advance(
    decoder: kernels.Decoder,
    trajectories: Sequence[Trajectory],
    interventions: Sequence[kernels.Intervention] | None = None,
) -> list[kernels.StepResult]:
    """One decode step for each: feed the last token, record the next. Natively without `interventions`, which must capture
    at least STEP_CAPTURES of all layers.
    """
    if not trajectories:
        return []
    each = interventions or [kernels.Intervention(capture=STEP_CAPTURES)] * len(trajectories)
    rows = [kernels.Row(one.state, one.tokens[-1:], intervention) for one, intervention in zip(trajectories, each, strict=True)]
    results = decoder.step(rows)
    for trajectory, result in zip(trajectories, results, strict=True):
        trajectory.tokens.append(result.token)
        trajectory.logit_margins.append(float(result.captures["logit_margin"][0]))
        trajectory.routes.append(np.asarray(result.captures["route"][0], dtype=np.int32))
        trajectory.router_margins.append(np.asarray(result.captures["router_margin"][0], dtype=np.float32))
    return results


def finish(decoder: kernels.Decoder, trajectories: Sequence[Trajectory], horizon: int) -> None:
    """Decode natively, all that are short of it together, until each has `horizon` generated tokens."""
    while going := [one for one in trajectories if len(one.tokens) < horizon]:
        advance(decoder, going)


def differing_routes(a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Bool [positions, layers]: where the sets of experts of two route arrays [positions, layers, k] differ."""
    differing: npt.NDArray[np.bool_] = np.any(np.sort(a, axis=-1) != np.sort(b, axis=-1), axis=-1)
    return differing


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Ordinal, from 1, of the first token in which two continuations of one length differ; None where they are equal."""
    return next((ordinal for ordinal, (one, other) in enumerate(zip(a, b, strict=True), start=1) if one != other), None)

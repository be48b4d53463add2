"""Greedy continuations, several at a time: prompt processing, then one token a step for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import kernels

STEP_CAPTURES = ("route", "router_margin", "logit_margin")
"""What every decode step records, of all layers."""


@dataclass(eq=False)
class Trajectory:
    """One continuation. The last of `tokens` was predicted and not yet fed to `state`.

    prompt: its token IDs. tokens: generated token IDs. logit_margins: for each of these, the gap between the two highest logits.
    routes: for each decode step int32 [layers, k], experts in router order. router_margins: the same, FP32 [layers].
    """

    state: kernels.State
    prompt: Sequence[int]
    tokens: list[int] = field(default_factory=list)
    logit_margins: list[float] = field(default_factory=list)
    routes: list[npt.NDArray[np.int32]] = field(default_factory=list)
    router_margins: list[npt.NDArray[np.float32]] = field(default_factory=list)

    def fork(self) -> Trajectory:
        """An independent continuation from here."""
        return Trajectory(
            self.state.fork(),
            self.prompt,
            list(self.tokens),
            list(self.logit_margins),
            list(self.routes),
            list(self.router_margins),
        )


def prefill(decoder: kernels.Decoder, prompts: Sequence[Sequence[int]]) -> list[Trajectory]:
    """Process prompts by the native path, all in one step, and emit the first token of each."""
    trajectories = [Trajectory(decoder.new_state(), prompt) for prompt in prompts]
    native = kernels.Intervention(capture=("logit_margin",))
    results = decoder.step([kernels.Row(one.state, one.prompt, native) for one in trajectories])
    for trajectory, result in zip(trajectories, results, strict=True):
        trajectory.tokens.append(result.token)
        trajectory.logit_margins.append(float(result.captures["logit_margin"][-1]))
    return trajectories


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

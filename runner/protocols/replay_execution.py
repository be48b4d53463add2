"""The work of the replay protocol: one native pass over a prompt and its continuation, and scheme C beside every aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.fork import same_bits
from runner.protocols.orders import native_order
from runner.protocols.trajectory import STEP_CAPTURES, advance, started
from schemas.digest import floats_sha256, routes_sha256, tokens_sha256
from schemas.tables.replay import REPLAY_PASSES
from schemas.unit import Unit, UnitResult

CAPTURE = kernels.Intervention(capture=(*STEP_CAPTURES, "moe_terms", "moe_shared", "moe_output"))


@dataclass
class NativeOrderC:
    """Scheme C in native order against the captured native MoE outputs: what c_moe_max_abs of the study is about."""

    compared: int = 0
    differing: int = 0
    max_abs: float = 0.0

    def add(self, result: kernels.StepResult) -> None:
        """Recompute the output of every position and layer of a step from its captured terms."""
        captures = result.captures
        positions, layers = captures["route"].shape[:2]
        for position in range(positions):
            for layer in range(layers):
                terms, shared, output, experts = (
                    captures[name][position, layer] for name in ("moe_terms", "moe_shared", "moe_output", "route")
                )
                again = kernels.aggregate(terms, shared, "C", [native_order(experts.tolist())])[0]
                self.compared += 1
                self.differing += not same_bits(again, output)
                self.max_abs = max(self.max_abs, float(np.abs(again - output).max()))


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """A row of replay_passes for each unit. Raises ConformanceFinding when the worker's checkpoint is not the planned one."""
    require_planned(session, units)
    return [_execute(session, unit) for unit in units]


def _execute(session: Session, unit: Unit) -> UnitResult:
    decoder, horizon = session.decoder, int(unit.meaning["parameters"]["horizon"])
    prompt = encode(session, unit, horizon)
    chunk = unit.meaning["chunk"]
    state, size = decoder.new_state(), chunk or len(prompt)
    results = []
    for start in range(0, len(prompt), size):
        results += decoder.step([kernels.Row(state, prompt[start : start + size], CAPTURE)])
    trajectory = started(state, prompt, results)
    logits = [results[-1].logits]
    scheme_c = NativeOrderC()
    for result in results:
        scheme_c.add(result)
    while len(trajectory.tokens) < horizon:
        [result] = advance(decoder, [trajectory], [CAPTURE])
        logits.append(result.logits)
        scheme_c.add(result)
    routes = trajectory.all_routes()
    row = {
        "prompt_id": unit.prompt_id,
        "execution": unit.meaning["execution"],
        "chunk": chunk,
        "prompt_token_ids": prompt,
        "token_ids": trajectory.tokens,
        "token_sha256": tokens_sha256(trajectory.tokens),
        "text": session.tokenizer.decode(trajectory.tokens),
        "logit_margins": trajectory.logit_margins,
        "logits_sha256": floats_sha256(np.stack(logits)),
        "positions": routes.shape[0],
        "layers": routes.shape[1],
        "routes": np.sort(routes, axis=-1).ravel().tolist(),
        "routes_sha256": routes_sha256(routes),
        "router_margin_min": trajectory.router_margin_min(),
        "state_sha256": state.sha256(),
        "c_outputs_compared": scheme_c.compared,
        "c_outputs_differing": scheme_c.differing,
        "c_moe_max_abs": scheme_c.max_abs,
        "unit_key": unit.key,
    }
    return UnitResult(unit.key, {REPLAY_PASSES.name: REPLAY_PASSES.build([row])})

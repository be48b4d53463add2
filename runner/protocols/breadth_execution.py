"""The work of the breadth protocol on a batch of prompts: prefill, fork, enumerate, inject, decode both, compare (study 2.4.7).

Horizon h is h generated tokens. The first is emitted from the prompt and precedes the fork; the forked step, the first
decode-only event, consumes it at the position after the prompt. There are h - 1 decode steps; the last token is not consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.fork import FORK_CAPTURES, Classes, Fork
from runner.protocols.injection import Injection, inject
from runner.protocols.trajectory import STEP_CAPTURES, Trajectory, advance, differing_routes, first_difference, prefill
from schemas.digest import floats_sha256, routes_sha256, tokens_sha256
from schemas.tables import BREADTH_CLASSES, BREADTH_UNITS
from schemas.unit import Unit, UnitResult


@dataclass(eq=False)
class _Case:
    """A unit under way. native and branch share everything before the forked step."""

    unit: Unit
    native: Trajectory
    branch: Trajectory
    fork: Fork
    classes: Classes
    router_margin: float

    @property
    def horizon(self) -> int:
        return int(self.unit.meaning["horizon"])


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of breadth_units (one) and breadth_classes (one a class) for each unit.

    Raises ConformanceFinding when the worker's checkpoint is not the planned one, when captured operands do not give the captured
    native result, or when the decoder's own injection gives other bits than the enumeration.
    """
    require_planned(session, units)
    prompts = [encode(session, unit, int(unit.meaning["horizon"])) for unit in units]
    natives = prefill(session.decoder, prompts)
    branches = [native.fork() for native in natives]
    cases = _fork(session.decoder, units, natives, branches)
    inject(session.decoder, [_injection(case) for case in cases])
    while going := [one for case in cases for one in (case.native, case.branch) if len(one.tokens) < case.horizon]:
        advance(session.decoder, going)
    return [_result(session, case) for case in cases]


def _fork(
    decoder: kernels.Decoder, units: Sequence[Unit], natives: Sequence[Trajectory], branches: Sequence[Trajectory]
) -> list[_Case]:
    """Run the forked step natively and enumerate the classes at what it captured."""
    capture = kernels.Intervention(capture=(*STEP_CAPTURES, *FORK_CAPTURES))
    results = advance(decoder, natives, [capture] * len(natives))
    cases = []
    for unit, native, branch, result in zip(units, natives, branches, results, strict=True):
        layer = _layer(unit)
        fork = Fork.of(result, layer)
        where = _where(unit, branch)
        fork.require_native(where)
        cases.append(_Case(unit, native, branch, fork, Classes.enumerate(fork, where), float(native.router_margins[0][layer])))
    return cases


def _injection(case: _Case) -> Injection:
    """The farthest class, in the forked step of the branch."""
    selected = case.classes.farthest()
    return Injection(
        branch=case.branch,
        layer=_layer(case.unit),
        scheme="B",
        order=case.classes.orders[selected][0],
        where=_where(case.unit, case.branch),
        name=f"class {selected}",
        expected=case.classes.streams[selected],
    )


def _result(session: Session, case: _Case) -> UnitResult:
    unit = case.unit
    classes = case.classes
    class_rows = [
        {
            "prompt_id": unit.prompt_id,
            "horizon": case.horizon,
            "structural_class": index,
            "order_low": low,
            "order_high": high,
            "linf_moe_output": classes.linf_output[index],
            "linf_post_mhc": classes.linf_stream[index],
            "moe_output_sha256": classes.output_sha256[index],
            "post_mhc_sha256": classes.stream_sha256[index],
            "equals_native": bool(classes.equals_native[index]),
            "unit_key": unit.key,
        }
        for index, (low, high) in enumerate(classes.orders)
    ]
    row = _fork_columns(case) | _behaviour_columns(session, case) | _inner_columns(case)
    tables = {BREADTH_UNITS.name: BREADTH_UNITS.build([row]), BREADTH_CLASSES.name: BREADTH_CLASSES.build(class_rows)}
    return UnitResult(unit.key, tables)


def _fork_columns(case: _Case) -> dict[str, Any]:
    unit, classes = case.unit, case.classes
    selected = classes.farthest()
    named = ("prompt_sha256", "language", "kind", "checkpoint_identity", "tokenizer_identity", "numerics")
    return {name: unit.meaning[name] for name in named} | {
        "prompt_id": unit.prompt_id,
        "horizon": case.horizon,
        "unit_key": unit.key,
        "prompt_token_ids": case.native.prompt,
        "fork_layer": _layer(unit),
        "fork_position": len(case.native.prompt),
        "fork_token": case.native.tokens[0],
        "fork_experts": case.fork.experts.tolist(),
        "fork_router_margin": case.router_margin,
        "structural_classes": len(classes.orders),
        "distinct_moe_outputs": len(set(classes.output_sha256)),
        "distinct_post_mhc": len(set(classes.stream_sha256)),
        "differing_from_native": int(np.count_nonzero(~classes.equals_native)),
        "selected_class": selected,
        "selected_order": classes.orders[selected][0],
        "selected_linf": classes.linf_stream[selected],
        "native_post_mhc_sha256": floats_sha256(case.fork.post_mhc),
        "branch_post_mhc_sha256": classes.stream_sha256[selected],
    }


def _behaviour_columns(session: Session, case: _Case) -> dict[str, Any]:
    """What an observer of tokens and text sees."""
    native, branch = case.native, case.branch
    texts = [session.tokenizer.decode(one.tokens) for one in (native, branch)]
    first = first_difference(native.tokens, branch.tokens)
    return {
        "native_token_ids": native.tokens,
        "branch_token_ids": branch.tokens,
        "native_token_sha256": tokens_sha256(native.tokens),
        "branch_token_sha256": tokens_sha256(branch.tokens),
        "native_text": texts[0],
        "branch_text": texts[1],
        "separated": first is not None,
        "first_difference": first,
        "text_differs": texts[0] != texts[1],
        "native_logit_margins": native.logit_margins,
        "branch_logit_margins": branch.logit_margins,
    }


def _inner_columns(case: _Case) -> dict[str, Any]:
    """Routes of all decode steps and the persistent state after the last of them."""
    native, branch = np.stack(case.native.routes), np.stack(case.branch.routes)  # [steps, layers, k]
    differing = differing_routes(native, branch)
    first = np.argwhere(differing)[:1].tolist()  # steps first, then layers: the order in which they are executed
    return {
        "routes_compared": differing.size,
        "routes_differing": int(np.count_nonzero(differing)),
        "first_route_position": len(case.native.prompt) + first[0][0] if first else None,
        "first_route_layer": first[0][1] if first else None,
        "native_routes_sha256": routes_sha256(native),
        "branch_routes_sha256": routes_sha256(branch),
        "native_router_margin_min": np.stack(case.native.router_margins).min(),
        "branch_router_margin_min": np.stack(case.branch.router_margins).min(),
        "state_position": case.native.state.position,
        "native_state_sha256": case.native.state.sha256(),
        "branch_state_sha256": case.branch.state.sha256(),
    }


def _layer(unit: Unit) -> int:
    return int(unit.meaning["parameters"]["fork"]["layer"])


def _where(unit: Unit, before: Trajectory) -> str:
    return f"{unit.prompt_id}, layer {_layer(unit)}, position {before.state.position}"

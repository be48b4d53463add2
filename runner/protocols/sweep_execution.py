"""The work of the sweep protocol: trace a fork, freeze it, enumerate a block of orders, continue every different state once.

What branches share is computed once a lease: the prompt, the native continuation, the operands of the frozen aggregation. States
of equal bits share their future (study 3.2.2), so one of them is executed and its result stands for all; native's own state too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.fork import F32, FORK_CAPTURES, Fork, linf, same_bits
from runner.protocols.injection import Injection, inject
from runner.protocols.trajectory import STEP_CAPTURES, Trajectory, advance, differing_routes, finish, first_difference, prefill
from schemas.digest import floats_sha256, routes_sha256, tokens_sha256
from schemas.errors import ConformanceFinding
from schemas.tables.sweep import SWEEP_FORKS, SWEEP_ORDERS
from schemas.unit import Unit, UnitResult


@dataclass(eq=False)
class _Trunk:
    """What all branches of a prompt share. before: at the fork, the first generated token not yet consumed. native: continued."""

    before: Trajectory
    native: Trajectory
    fork: Fork
    router_margin: float


@dataclass(frozen=True, eq=False)
class _Frozen:
    """A block of orders at the frozen aggregation: MoE outputs FP32 [n, D] and post-mHC streams [n, hc, D]. classes: None where
    the scheme has none.
    """

    orders: Sequence[int]
    classes: Sequence[int | None]
    outputs: F32
    streams: F32


def branch_count(scheme: str, experts_per_token: int) -> int:
    """Branches of a scheme: orders, for scheme B classes of two (study 2.6)."""
    orders = math.factorial(experts_per_token)
    return orders // 2 if scheme == "B" else orders


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """A row of sweep_forks and, but for native, a row of sweep_orders an order for each unit.

    Raises ConformanceFinding when the worker's checkpoint is not the planned one, when captured operands do not give the captured
    native result, when two orders of a class differ, or when the decoder's own injection gives other bits than the enumeration.
    """
    require_planned(session, units)
    trunks: dict[str, _Trunk] = {}
    results = []
    for unit in units:
        if unit.prompt_id not in trunks:
            trunks[unit.prompt_id] = _trace(session, unit)
        results.append(_execute(session, unit, trunks[unit.prompt_id]))
    return results


def _trace(session: Session, unit: Unit) -> _Trunk:
    horizon, layer = _horizon(unit), _layer(unit)
    [native] = prefill(session.decoder, [encode(session, unit, horizon)])
    before = native.fork()
    [result] = advance(session.decoder, [native], [kernels.Intervention(capture=(*STEP_CAPTURES, *FORK_CAPTURES))])
    fork = Fork.of(result, layer)
    fork.require_native(_where(unit, before))
    finish(session.decoder, [native], horizon)
    return _Trunk(before, native, fork, float(native.router_margins[0][layer]))


def _execute(session: Session, unit: Unit, trunk: _Trunk) -> UnitResult:
    rows: list[dict[str, Any]] = []
    executed = 0
    if unit.meaning["scheme"] != "native":
        frozen = _freeze(unit, trunk)
        futures, executed = _continue(session, unit, trunk, frozen)
        rows = [
            columns | futures[stream.tobytes()]
            for columns, stream in zip(_frozen_columns(unit, trunk, frozen), frozen.streams, strict=True)
        ]
    fork_row = _fork_columns(session, unit, trunk) | {"executed": executed}
    tables = {SWEEP_FORKS.name: SWEEP_FORKS.build([fork_row]), SWEEP_ORDERS.name: SWEEP_ORDERS.build(rows)}
    return UnitResult(unit.key, tables)


def _continue(session: Session, unit: Unit, trunk: _Trunk, frozen: _Frozen) -> tuple[dict[bytes, dict[str, Any]], int]:
    """Bytes of each post-mHC state -> what followed from it, and how many of these states were executed."""
    # Native's own state first: an order that gives it needs no execution.
    continued = {trunk.fork.post_mhc.tobytes(): trunk.native}
    fresh: dict[bytes, int] = {}
    for place, stream in enumerate(frozen.streams):
        if stream.tobytes() not in continued:
            fresh.setdefault(stream.tobytes(), place)
    branches = [trunk.before.fork() for _ in fresh]
    scheme, where = unit.meaning["scheme"], _where(unit, trunk.before)
    injections = [
        Injection(
            branch=branch,
            layer=_layer(unit),
            scheme=scheme,
            order=frozen.orders[place],
            where=where,
            name=f"{scheme} order {frozen.orders[place]}",
            expected=frozen.streams[place],
        )
        for branch, place in zip(branches, fresh.values(), strict=True)
    ]
    inject(session.decoder, injections)
    finish(session.decoder, branches, _horizon(unit))
    continued |= dict(zip(fresh, branches, strict=True))
    return {state: _future(session, branch, trunk.native) for state, branch in continued.items()}, len(fresh)


def _freeze(unit: Unit, trunk: _Trunk) -> _Frozen:
    """Outputs and streams of the unit's orders by the decoder's own aggregation and mHC mix; lower orders of classes first."""
    scheme, first, count = unit.meaning["scheme"], int(unit.meaning["first_branch"]), int(unit.meaning["branches"])
    orders: list[int] = list(range(first, first + count))
    classes: Sequence[int | None] = [None] * count
    if scheme == "B":
        pairs = kernels.structural_classes(len(trunk.fork.experts))[first : first + count]
        orders = [low for low, _ in pairs] + [high for _, high in pairs]
        classes = list(range(first, first + count)) * 2
    outputs = trunk.fork.outputs(scheme, orders)
    if scheme == "B" and not same_bits(outputs[:count], outputs[count:]):
        where = _where(unit, trunk.before)
        raise ConformanceFinding(f"{where}: B orders that differ only in their first two terms give different MoE outputs")
    return _Frozen(orders, classes, outputs, trunk.fork.streams(outputs))


def _frozen_columns(unit: Unit, trunk: _Trunk, frozen: _Frozen) -> Iterator[dict[str, Any]]:
    """What is known of each order before it is continued."""
    linf_outputs, linf_streams = linf(frozen.outputs, trunk.fork.moe_output), linf(frozen.streams, trunk.fork.post_mhc)
    for place, (order, number) in enumerate(zip(frozen.orders, frozen.classes, strict=True)):
        yield {
            "prompt_id": unit.prompt_id,
            "scheme": unit.meaning["scheme"],
            "order": order,
            "structural_class": number,
            "linf_moe_output": linf_outputs[place],
            "linf_post_mhc": linf_streams[place],
            "moe_output_sha256": floats_sha256(frozen.outputs[place]),
            "post_mhc_sha256": floats_sha256(frozen.streams[place]),
            "equals_native": same_bits(frozen.streams[place], trunk.fork.post_mhc),
            "unit_key": unit.key,
        }


def _future(session: Session, branch: Trajectory, native: Trajectory) -> dict[str, Any]:
    """What followed from a state."""
    routes = np.stack(branch.routes)
    differing = differing_routes(routes, np.stack(native.routes))
    return {
        "token_ids": branch.tokens,
        "token_sha256": tokens_sha256(branch.tokens),
        "text": session.tokenizer.decode(branch.tokens),
        "first_difference": first_difference(native.tokens, branch.tokens),
        "routes_compared": differing.size,
        "routes_differing": int(np.count_nonzero(differing)),
        "routes_sha256": routes_sha256(routes),
    }


def _fork_columns(session: Session, unit: Unit, trunk: _Trunk) -> dict[str, Any]:
    native = trunk.native
    return {
        "prompt_id": unit.prompt_id,
        "scheme": unit.meaning["scheme"],
        "first_branch": unit.meaning["first_branch"],
        "branches": unit.meaning["branches"],
        "prompt_token_ids": native.prompt,
        "fork_layer": _layer(unit),
        "fork_position": len(native.prompt),
        "fork_token": native.tokens[0],
        "fork_experts": trunk.fork.experts.tolist(),
        "fork_router_margin": trunk.router_margin,
        "native_moe_output_sha256": floats_sha256(trunk.fork.moe_output),
        "native_post_mhc_sha256": floats_sha256(trunk.fork.post_mhc),
        "native_token_ids": native.tokens,
        "native_token_sha256": tokens_sha256(native.tokens),
        "native_text": session.tokenizer.decode(native.tokens),
        "native_routes_sha256": routes_sha256(np.stack(native.routes)),
        "unit_key": unit.key,
    }


def _horizon(unit: Unit) -> int:
    return int(unit.meaning["parameters"]["horizon"])


def _layer(unit: Unit) -> int:
    return int(unit.meaning["parameters"]["fork"]["layer"])


def _where(unit: Unit, before: Trajectory) -> str:
    return f"{unit.prompt_id}, layer {_layer(unit)}, position {before.state.position}"

"""The work of the event-direction protocol: continue every class of one fork, and replay sampled ones from the beginning.

A unit of classes traces the fork, injects each of its classes there and follows them, together with the native reference. A unit
of a replay traces and enumerates nothing: it processes the prompt, injects its one order and goes on, as if nobody had been there
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.endpoint import Probe
from runner.protocols.injection import Injection, inject
from runner.protocols.trajectory import Trajectory, finish, first_difference, prefill
from schemas.digest import floats_sha256, tokens_sha256
from schemas.tables.event_direction import EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_FORKS, EVENT_DIRECTION_REPLAYS
from schemas.unit import Unit, UnitResult

ROWS_AT_ONCE = 64
"""Branches that are advanced together: rows of one step read the weights once, and no bit depends on how many there are."""


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """For a unit of classes a row of event_direction_forks and one of event_direction_classes a class; for a replay one of
    event_direction_replays.

    Raises ConformanceFinding when captured operands do not give the captured native result, or when injecting a class gives other
    bits than enumerating it.
    """
    require_planned(session, units)
    replays = [unit for unit in units if "run" in unit.meaning]
    replayed = dict(zip((unit.key for unit in replays), _replay(session, replays), strict=True))
    probes: dict[tuple[str, int], tuple[Probe, Trajectory]] = {}
    results = []
    for unit in units:
        if unit.key in replayed:
            results.append(_result(unit, replays=[replayed[unit.key]]))
            continue
        traced = (unit.prompt_id, _horizon(unit))
        if traced not in probes:
            probes[traced] = _trace(session, unit)
        results.append(_continue(session, unit, *probes[traced]))
    return results


def _result(
    unit: Unit,
    forks: Sequence[dict[str, Any]] = (),
    classes: Sequence[dict[str, Any]] = (),
    replays: Sequence[dict[str, Any]] = (),
) -> UnitResult:
    tables = {
        EVENT_DIRECTION_FORKS.name: EVENT_DIRECTION_FORKS.build(forks),
        EVENT_DIRECTION_CLASSES.name: EVENT_DIRECTION_CLASSES.build(classes),
        EVENT_DIRECTION_REPLAYS.name: EVENT_DIRECTION_REPLAYS.build(replays),
    }
    return UnitResult(unit.key, tables)


def _trace(session: Session, unit: Unit) -> tuple[Probe, Trajectory]:
    """The fork with its classes, and the native reference from the same moment on."""
    prompt = encode(session, unit, _horizon(unit))
    probe = Probe.at(session.decoder, prompt, _layer(unit), f"{unit.prompt_id}, layer {_layer(unit)}, position {len(prompt)}")
    native = probe.before.fork()
    finish(session.decoder, [native], _horizon(unit))
    return probe, native


def _continue(session: Session, unit: Unit, probe: Probe, native: Trajectory) -> UnitResult:
    first, count = int(unit.meaning["first_class"]), int(unit.meaning["classes"])
    rows = []
    for start in range(first, first + count, ROWS_AT_ONCE):
        chunk = range(start, min(start + ROWS_AT_ONCE, first + count))
        branches = [probe.before.fork() for _ in chunk]
        injections = [
            Injection(
                branch=branch,
                layer=_layer(unit),
                scheme="B",
                order=probe.order(one),
                where=_where(unit, branch),
                name=f"class {one}",
                expected=probe.classes.streams[one],
            )
            for one, branch in zip(chunk, branches, strict=True)
        ]
        inject(session.decoder, injections)
        finish(session.decoder, branches, _horizon(unit))
        rows += [
            {
                "prompt_id": unit.prompt_id,
                "structural_class": one,
                "branch_order": probe.order(one),
                "linf_post_mhc": probe.classes.linf_stream[one],
                "post_mhc_sha256": probe.classes.stream_sha256[one],
                "first_difference": first_difference(native.tokens, branch.tokens),
                "unit_key": unit.key,
            }
            | _said(session, branch)
            for one, branch in zip(chunk, branches, strict=True)
        ]
    fork = {
        "prompt_id": unit.prompt_id,
        "first_class": first,
        "classes": count,
        "prompt_sha256": unit.meaning["prompt_sha256"],
        "prompt_token_ids": native.prompt,
        "checkpoint_identity": unit.meaning["checkpoint_identity"],
        "tokenizer_identity": unit.meaning["tokenizer_identity"],
        "fork_layer": _layer(unit),
        "fork_position": len(native.prompt),
        "fork_token": native.tokens[0],
        "fork_experts": probe.fork.experts.tolist(),
        "structural_classes": len(probe.classes.orders),
        "native_post_mhc_sha256": floats_sha256(probe.fork.post_mhc),
        "unit_key": unit.key,
    } | {f"native_{name}": value for name, value in _said(session, native).items()}
    return _result(unit, [fork], rows)


def _replay(session: Session, units: Sequence[Unit]) -> list[dict[str, Any]]:
    """Rows of event_direction_replays. The prompts are processed again, each for itself."""
    if not units:
        return []
    prompts = [encode(session, unit, _horizon(unit)) for unit in units]
    branches = prefill(session.decoder, prompts)
    classes = kernels.structural_classes(session.checkpoint.config.num_experts_per_tok)
    orders = [classes[int(unit.meaning["structural_class"])][0] for unit in units]
    states = inject(
        session.decoder,
        [
            Injection(branch, _layer(unit), "B", order, _where(unit, branch), f"order {order}")
            for unit, branch, order in zip(units, branches, orders, strict=True)
        ],
    )
    finish(session.decoder, branches, _horizon(units[0]))
    named = ("prompt_sha256", "checkpoint_identity", "tokenizer_identity", "numerics", "structural_class", "run")
    return [
        {name: unit.meaning[name] for name in named}
        | {
            "prompt_id": unit.prompt_id,
            "prompt_token_ids": branch.prompt,
            "fork_layer": _layer(unit),
            "fork_position": len(branch.prompt),
            "fork_token": branch.tokens[0],
            "branch_order": order,
            "post_mhc_sha256": floats_sha256(state),
            "unit_key": unit.key,
        }
        | _said(session, branch)
        for unit, branch, order, state in zip(units, branches, orders, states, strict=True)
    ]


def _where(unit: Unit, branch: Trajectory) -> str:
    return f"{unit.prompt_id}, layer {_layer(unit)}, position {len(branch.prompt)}"


def _said(session: Session, trajectory: Trajectory) -> dict[str, Any]:
    tokens = trajectory.tokens
    return {"token_ids": tokens, "token_sha256": tokens_sha256(tokens), "text": session.tokenizer.decode(tokens)}


def _horizon(unit: Unit) -> int:
    return int(unit.meaning["horizon"])


def _layer(unit: Unit) -> int:
    return int(unit.meaning["parameters"]["fork"]["layer"])

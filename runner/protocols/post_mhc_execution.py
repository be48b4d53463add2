"""The work of the post-mHC substitution on one prompt (study 2.4.2, 3.2.2).

Four executions, each from its own prefill: the probe, which enumerates the classes and captures the native endpoint H_P; the
branch, which injects the class and gives H_B; the substituted one, which does no probing and adds H_B - H_P once; and the native
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.endpoint import (
    Probe,
    Recording,
    behaviour_columns,
    choose,
    equal_bits,
    fork_columns,
    linf,
    literal_delta,
    rebuilt,
    require_stream,
)
from runner.protocols.fork import same_bits
from schemas.digest import floats_sha256
from schemas.errors import ConformanceFinding
from schemas.tables import POST_MHC_CHECKPOINTS, POST_MHC_PREFORK, POST_MHC_UNITS
from schemas.unit import Unit, UnitResult


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of post_mhc_units (one), post_mhc_prefork (one a layer before the fork) and post_mhc_checkpoints (decode inputs times
    layers) for each unit.

    Raises ConformanceFinding when the native state at the fork, or the sum, does not have the bits required of it.
    """
    require_planned(session, units)
    return [_control(session, unit) for unit in units]


def vectors_compared(layers: int, fork_layer: int, decode_inputs: int) -> int:
    """Post-mHC states from the endpoint on: the rest of the forked step and whole steps after it (339 for 43, 5, 8)."""
    return (layers - fork_layer) + (decode_inputs - 1) * layers


def _control(session: Session, unit: Unit) -> UnitResult:
    parameters, decoder = unit.meaning["parameters"], session.decoder
    layer, decode_inputs = int(parameters["fork"]["layer"]), int(parameters["decode_inputs"])
    prompt = encode(session, unit, decode_inputs + 1)
    where = f"{unit.prompt_id}, layer {layer}, position {len(prompt)}"
    probe = Probe.at(decoder, prompt, layer, where)
    before = probe.fork.post_mhc

    def unusable(structural_class: int) -> str:
        after = probe.classes.streams[structural_class]
        missed = int(np.count_nonzero(~equal_bits(rebuilt(before, literal_delta(before, after)), after)))
        return f"{missed} of {before.size} values are not rebuilt by its FP32 difference" if missed else ""

    choice = choose(probe, unit, unusable)
    branch = Recording.start(decoder, prompt)
    branch.step(decoder, aggregation=probe.aggregation(choice.structural_class))
    require_stream(probe, choice, branch, where)
    after = branch.post_mhc[0][layer]

    substituted = Recording.start(decoder, prompt)
    delta = literal_delta(before, after)
    try:
        substituted.step(decoder, post_mhc_delta=kernels.PostMhcDelta(layer, delta, before, after))
    except kernels.StateMismatch as error:
        raise ConformanceFinding(f"{where}: {error}") from None
    native = Recording.start(decoder, prompt)
    for recording in (branch, substituted, native):
        recording.finish(decoder, decode_inputs)

    prefork = [_prefork_row(unit, branch, native, one) for one in range(layer)]
    checkpoints = [
        _checkpoint_row(unit, branch, substituted, step, one, compared=step > 0 or one >= layer)
        for step in range(decode_inputs)
        for one in range(session.checkpoint.config.num_hidden_layers)
    ]
    vectors = [row["equal"] for row in checkpoints if row["equal"] is not None]
    rebuilt_endpoint = substituted.post_mhc[0][layer]
    row = (
        fork_columns(unit, probe, choice)
        | behaviour_columns(session, native, branch, substituted)
        | {
            "layers": session.checkpoint.config.num_hidden_layers,
            "endpoint_values": before.size,
            "differing_values": int(np.count_nonzero(~equal_bits(before, after))),
            "delta_linf": float(np.abs(delta).max()),
            "native_endpoint_sha256": floats_sha256(before),
            "branch_endpoint_sha256": floats_sha256(after),
            "substituted_endpoint_sha256": floats_sha256(rebuilt_endpoint),
            "reconstruction_linf": linf(after, rebuilt_endpoint),
            "prefork_compared": len(prefork),
            "prefork_equal": sum(one["equal"] for one in prefork),
            "vectors_compared": len(vectors),
            "vectors_equal": sum(vectors),
            "routes_compared": len(checkpoints),
            "routes_equal": sum(one["route_equal"] for one in checkpoints),
        }
    )
    tables = {
        POST_MHC_UNITS.name: POST_MHC_UNITS.build([row]),
        POST_MHC_PREFORK.name: POST_MHC_PREFORK.build(prefork),
        POST_MHC_CHECKPOINTS.name: POST_MHC_CHECKPOINTS.build(checkpoints),
    }
    return UnitResult(unit.key, tables)


def _prefork_row(unit: Unit, branch: Recording, native: Recording, layer: int) -> dict[str, Any]:
    """Both executions on their way into the fork: measured to be the same, not assumed."""
    streams, native_streams = branch.post_mhc[0][layer], native.post_mhc[0][layer]
    return {
        "prompt_id": unit.prompt_id,
        "position": branch.fork_position,
        "layer": layer,
        "endpoint_values": streams.size,
        "branch_sha256": floats_sha256(streams),
        "native_sha256": floats_sha256(native_streams),
        "linf": linf(streams, native_streams),
        "equal": same_bits(streams, native_streams),
        "unit_key": unit.key,
    }


def _checkpoint_row(
    unit: Unit, branch: Recording, substituted: Recording, step: int, layer: int, *, compared: bool
) -> dict[str, Any]:
    streams, others = branch.post_mhc[step][layer], substituted.post_mhc[step][layer]
    routes = [one.trajectory.routes[step][layer].tolist() for one in (branch, substituted)]
    return {
        "prompt_id": unit.prompt_id,
        "decode_input": step + 1,
        "position": branch.fork_position + step,
        "layer": layer,
        "branch_experts": routes[0],
        "substituted_experts": routes[1],
        "route_equal": routes[0] == routes[1],
        "branch_sha256": floats_sha256(streams) if compared else None,
        "substituted_sha256": floats_sha256(others) if compared else None,
        "linf": linf(streams, others) if compared else None,
        "equal": same_bits(streams, others) if compared else None,
        "unit_key": unit.key,
    }

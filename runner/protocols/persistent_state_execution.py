"""The work of the persistent-state substitution on one prompt (study 2.4.3, 3.2.3).

Three executions, each from its own prefill, beside the probe that enumerates the classes: the native one, whose state at the
boundary is S_P; the branch, which injects the class and gives S_B; and the substituted one, which follows the native path through
the forked position and then adds S_B - S_P in FP64. No execution is handed a token: each feeds what it predicted itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import kernels
from actors.executor import Session
from runner.protocols.common import encode, require_planned
from runner.protocols.endpoint import (
    F32,
    F64,
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
    wide_delta,
)
from runner.protocols.fork import same_bits
from schemas.digest import floats_sha256
from schemas.errors import ConformanceFinding
from schemas.tables import PERSISTENT_STATE_CHECKPOINTS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_UNITS
from schemas.unit import Unit, UnitResult


@dataclass(frozen=True, eq=False)
class _Boundary:
    """Both persistent states after the forked position, and their difference in both precisions. records: a slice a layer."""

    native: F32
    branch: F32
    wide: F64
    literal: F32
    records: Sequence[slice]

    @classmethod
    def between(cls, native: kernels.State, branch: kernels.State, layers: int) -> _Boundary:
        before, after = native.values(), branch.values()
        return cls(before, after, wide_delta(before, after), literal_delta(before, after), layer_records(native, layers))

    def equal(self, delta: F32 | F64) -> npt.NDArray[np.bool_]:
        """Where adding the difference to the native state gives the branch's bits; where these are equal nothing is added."""
        return equal_bits(rebuilt(self.native, delta), self.branch) | equal_bits(self.native, self.branch)

    def rebuilds(self, delta: F32 | F64) -> list[bool]:
        """For each layer, whether its whole record is rebuilt."""
        equal = self.equal(delta)
        return [bool(equal[record].all()) for record in self.records]


def layer_records(state: kernels.State, layers: int) -> list[slice]:
    """Where each layer's values stand in `state.values()`: all its components, one after the other."""
    ends = [0] * layers
    for layer, _, offset, (rows, width) in state.layout():
        ends[layer] = offset + rows * width
    return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    """Rows of persistent_state_units (one), persistent_state_layers (one a layer) and persistent_state_checkpoints (decode inputs
    after the boundary times layers) for each unit.

    Raises ConformanceFinding when the state before the addition, or after it, does not have the bits required of it.
    """
    require_planned(session, units)
    return [_control(session, unit) for unit in units]


def _control(session: Session, unit: Unit) -> UnitResult:
    parameters, decoder = unit.meaning["parameters"], session.decoder
    layer, decode_inputs = int(parameters["fork"]["layer"]), int(parameters["decode_inputs"])
    layers = session.checkpoint.config.num_hidden_layers
    prompt = encode(session, unit, decode_inputs + 1)
    where = f"{unit.prompt_id}, layer {layer}, position {len(prompt)}"
    probe = Probe.at(decoder, prompt, layer, where)
    native = Recording.start(decoder, prompt)
    native.step(decoder)
    choice = choose(probe, unit, lambda one: _unusable(probe, native, layers, one))

    branch = Recording.start(decoder, prompt)
    branch.step(decoder, aggregation=probe.aggregation(choice.structural_class))
    require_stream(probe, choice, branch, where)
    boundary = _Boundary.between(native.states[0], branch.states[0], layers)
    fp32, fp64 = boundary.rebuilds(boundary.literal), boundary.rebuilds(boundary.wide)

    substituted = Recording.start(decoder, prompt)
    substituted.step(decoder)
    _require_refusal(substituted.trajectory.state.fork(), boundary, where, expected=not all(fp32))
    try:
        substituted.trajectory.state.add_delta(boundary.wide, boundary.native, boundary.branch)
    except kernels.StateMismatch as error:
        raise ConformanceFinding(f"{where}: {error}") from None
    substituted.states[0] = substituted.trajectory.state.fork()
    for recording in (native, branch, substituted):
        recording.finish(decoder, decode_inputs)

    layer_rows = [
        _layer_row(unit, boundary, one) | {"position": len(prompt), "fp32_rebuilt": fp32[one], "fp64_rebuilt": fp64[one]}
        for one in range(layers)
    ]
    checkpoints = [row for step in range(1, decode_inputs) for row in _checkpoint_rows(unit, branch, substituted, step, layers)]
    row = (
        fork_columns(unit, probe, choice)
        | behaviour_columns(session, native, branch, substituted)
        | _boundary_columns(boundary, layer_rows)
        | _next_columns(native, branch, substituted)
        | {
            "layers": layers,
            "fp32_layers_rebuilt": sum(fp32),
            "fp64_layers_rebuilt": sum(fp64),
            "post_mhc_compared": len(checkpoints),
            "post_mhc_equal": sum(one["post_mhc_equal"] for one in checkpoints),
            "states_compared": len(checkpoints),
            "states_equal": sum(one["state_equal"] for one in checkpoints),
            "routes_compared": len(checkpoints),
            "routes_equal": sum(one["route_equal"] for one in checkpoints),
        }
    )
    tables = {
        PERSISTENT_STATE_UNITS.name: PERSISTENT_STATE_UNITS.build([row]),
        PERSISTENT_STATE_LAYERS.name: PERSISTENT_STATE_LAYERS.build(layer_rows),
        PERSISTENT_STATE_CHECKPOINTS.name: PERSISTENT_STATE_CHECKPOINTS.build(checkpoints),
    }
    return UnitResult(unit.key, tables)


def _unusable(probe: Probe, native: Recording, layers: int, structural_class: int) -> str:
    """Why a class cannot be the branch of this control, or ""."""
    branch = Recording(probe.before.fork())
    branch.step(probe.decoder, aggregation=probe.aggregation(structural_class))
    if branch.trajectory.tokens[-1] != native.trajectory.tokens[-1]:
        return f"it predicts token {branch.trajectory.tokens[-1]} next, native predicts {native.trajectory.tokens[-1]}"
    boundary = _Boundary.between(native.states[0], branch.states[0], layers)
    if same_bits(boundary.native, boundary.branch):
        return "its persistent state is the native one"
    missed = int(np.count_nonzero(~boundary.equal(boundary.wide)))
    return f"{missed} of {boundary.native.size} values are not rebuilt by its FP64 difference" if missed else ""


def _require_refusal(state: kernels.State, boundary: _Boundary, where: str, *, expected: bool) -> None:
    """The decoder's check after the addition must tell an exact FP32 difference from another, as the comparison here does."""
    try:
        state.add_delta(boundary.literal, boundary.native, boundary.branch)
    except kernels.StateMismatch as error:
        if not expected:
            raise ConformanceFinding(f"{where}: the FP32 difference rebuilds every layer and was refused: {error}") from None
    else:
        if expected:
            raise ConformanceFinding(f"{where}: the FP32 difference does not rebuild every layer and was accepted")


def _boundary_columns(boundary: _Boundary, layer_rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "state_values": boundary.native.size,
        "differing_values": sum(row["differing_values"] for row in layer_rows),
        "differing_layers": sum(row["differing_values"] > 0 for row in layer_rows),
        "max_abs_difference": max(row["max_abs_difference"] for row in layer_rows),
    }


def _next_columns(native: Recording, branch: Recording, substituted: Recording) -> dict[str, Any]:
    """The boundary as each execution has it; the token that it predicted there is the second, after the prompt's."""
    columns: dict[str, Any] = {}
    for name, recording in (("native", native), ("branch", branch), ("substituted", substituted)):
        columns[f"{name}_state_sha256"] = recording.states[0].sha256()
        columns[f"{name}_next_token"] = recording.trajectory.tokens[1]
    return columns


def _layer_row(unit: Unit, boundary: _Boundary, layer: int) -> dict[str, Any]:
    record = boundary.records[layer]
    before, after = boundary.native[record], boundary.branch[record]
    return {
        "prompt_id": unit.prompt_id,
        "layer": layer,
        "state_values": before.size,
        "differing_values": int(np.count_nonzero(~equal_bits(before, after))),
        "max_abs_difference": float(np.abs(boundary.wide[record]).max(initial=0)),
        "native_sha256": floats_sha256(before),
        "branch_sha256": floats_sha256(after),
        "unit_key": unit.key,
    }


def _checkpoint_rows(unit: Unit, branch: Recording, substituted: Recording, step: int, layers: int) -> list[dict[str, Any]]:
    """Everything compared after one decode input, a row a layer."""
    states = [one.states[step].values() for one in (branch, substituted)]
    records = layer_records(branch.states[step], layers)
    rows = []
    for layer in range(layers):
        mine, others = (values[records[layer]] for values in states)
        streams, other_streams = branch.post_mhc[step][layer], substituted.post_mhc[step][layer]
        routes = [one.trajectory.routes[step][layer].tolist() for one in (branch, substituted)]
        rows.append(
            {
                "prompt_id": unit.prompt_id,
                "decode_input": step + 1,
                "position": branch.fork_position + step,
                "layer": layer,
                "branch_post_mhc_sha256": floats_sha256(streams),
                "substituted_post_mhc_sha256": floats_sha256(other_streams),
                "post_mhc_linf": linf(streams, other_streams),
                "post_mhc_equal": same_bits(streams, other_streams),
                "branch_state_sha256": floats_sha256(mine),
                "substituted_state_sha256": floats_sha256(others),
                "state_differing_values": int(np.count_nonzero(~equal_bits(mine, others))),
                "state_equal": same_bits(mine, others),
                "branch_experts": routes[0],
                "substituted_experts": routes[1],
                "route_equal": routes[0] == routes[1],
                "unit_key": unit.key,
            }
        )
    return rows

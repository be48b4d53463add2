"""Claims about the persistent-state substitution (study 2.4.3, 3.2.3): size of the state, its rebuilding, what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, grouped
from runner.audit.geometry import Geometry
from runner.audit.ledger import Check, Claim, Tally, empirical, every, same, structural
from runner.audit.substitution import (
    Control,
    Figures,
    a_control_a_prompt,
    concluded,
    conclusions,
    each,
    equal,
    has_values,
    of_each,
    prompts_separated,
)
from schemas.tables import PERSISTENT_STATE_CHECKPOINTS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_UNITS


@dataclass(frozen=True, kw_only=True)
class StateControl(Control):
    """untouched: layers up to the fork's whose record is native's. fp32, fp64: layer records that the difference rebuilds.
    post_mhc, states: rows after the boundary that are equal.
    """

    differing_values: int
    differing_layers: int
    max_abs: float
    untouched: Tally
    fp32: Tally
    fp64: Tally
    same_next_token: bool
    post_mhc: Tally
    states: Tally

    @property
    def later(self) -> int:
        """Layer checkpoints after the boundary."""
        return (self.decode_inputs - 1) * self.layers

    @property
    def formula(self) -> str:
        return f"{self.decode_inputs - 1}*{self.layers}"


StateFigures = Figures[StateControl]


def measure(evidence: Evidence) -> StateFigures:
    layers = grouped(evidence.rows(PERSISTENT_STATE_LAYERS.name), "prompt_id")
    checkpoints = grouped(evidence.rows(PERSISTENT_STATE_CHECKPOINTS.name), "prompt_id")
    geometry = None if evidence.checkpoint is None else Geometry.of(evidence.checkpoint.config)
    rows = evidence.rows(PERSISTENT_STATE_UNITS.name)
    return StateFigures(
        prompts=len(evidence.prompts),
        controls=tuple(_control(row, layers[row["prompt_id"]], checkpoints[row["prompt_id"]], geometry) for row in rows),
    )


def _control(row: Row, layers: Sequence[Row], checkpoints: Sequence[Row], geometry: Geometry | None) -> StateControl:
    def records(column: str) -> Tally:
        return Tally.of((one[column], f"layer {one['layer']}: {column}", one[FILE]) for one in layers)

    differing = [one for one in layers if one["branch_sha256"] != one["native_sha256"]]
    post_mhc = equal(
        checkpoints,
        ("branch_post_mhc_sha256", "substituted_post_mhc_sha256"),
        "post_mhc_equal",
        distance="post_mhc_linf",
        what="post-mHC",
    )
    states = equal(
        checkpoints,
        ("branch_state_sha256", "substituted_state_sha256"),
        "state_equal",
        distance="state_differing_values",
        what="persistent state",
    )
    routes = equal(checkpoints, ("branch_experts", "substituted_experts"), "route_equal", what="route")
    fp32, fp64 = records("fp32_rebuilt"), records("fp64_rebuilt")
    sums = {
        "state_values": sum(one["state_values"] for one in layers),
        "differing_values": sum(one["differing_values"] for one in layers),
        "differing_layers": len(differing),
        "max_abs_difference": max((one["max_abs_difference"] for one in layers), default=0.0),
        "fp32_layers_rebuilt": fp32.good,
        "fp64_layers_rebuilt": fp64.good,
        "post_mhc_equal": post_mhc.good,
        "states_equal": states.good,
        "routes_equal": routes.good,
    }
    return StateControl(
        **concluded(row),
        values=row["state_values"],
        differing_values=row["differing_values"],
        differing_layers=len(differing),
        max_abs=row["max_abs_difference"],
        untouched=Tally.of(
            (one not in differing and one["differing_values"] == 0, f"layer {one['layer']}", one[FILE])
            for one in layers
            if one["layer"] <= row["fork_layer"]
        ),
        fp32=fp32,
        fp64=fp64,
        same_next_token=row["native_next_token"] == row["branch_next_token"] == row["substituted_next_token"],
        post_mhc=post_mhc,
        states=states,
        routes=routes,
        geometry_values=None if geometry is None else geometry.state_values(row["fork_position"]),
        summary=Tally.of(
            (row[column] == total, f"{column}: {row[column]}, the rows say {total}", row[FILE]) for column, total in sums.items()
        ),
    )


def _topology(control: StateControl) -> Check:
    """Only layers after the fork's can differ, as that one's attention was committed before its experts were added up."""
    most = control.layers - control.fork_layer - 1
    right = 0 < control.differing_layers <= most and control.differing_values >= control.differing_layers
    formula = f"{control.layers}-{control.fork_layer}-1"
    return Check(f"{control.differing_layers} layers differ", f"1 to {most} = {formula}", right)


def _next_token(control: StateControl) -> Check:
    return same("the same" if control.same_next_token else "different ones", "the same")


CHECKPOINTS, LAYERS, UNITS = PERSISTENT_STATE_CHECKPOINTS.name, PERSISTENT_STATE_LAYERS.name, PERSISTENT_STATE_UNITS.name

_CONCLUSIONS: tuple[Claim[StateFigures], ...] = conclusions(UNITS, predictions="3.2.3", texts="3.2.3")

CLAIMS: tuple[Claim[StateFigures], ...] = (
    a_control_a_prompt("2.4.3", UNITS),
    has_values("2.4.3", UNITS, "The state at the boundary has the values of its geometry", "the geometry's formula"),
    structural(
        "untouched",
        "3.2.3",
        LAYERS,
        "Layers up to the fork's keep the native state",
        each(lambda one: every(one.untouched, one.fork_layer + 1, f"{one.fork_layer}+1")),
    ),
    structural("topology", "3.2.3", LAYERS, "Differences are in later layers only, and there are some", each(_topology)),
    structural(
        "fp64",
        "3.2.3",
        LAYERS,
        "The FP64 difference rebuilds every layer's record",
        each(lambda one: every(one.fp64, one.layers)),
    ),
    structural("next_token", "3.2.3", UNITS, "All executions predict one next token, unforced", each(_next_token)),
    structural(
        "post_mhc",
        "3.2.3",
        CHECKPOINTS,
        "Post-mHC states after the boundary are equal: (n-1)L of them",
        each(lambda one: every(one.post_mhc, one.later, one.formula)),
    ),
    structural(
        "states",
        "3.2.3",
        CHECKPOINTS,
        "Persistent states after the boundary are equal: as many",
        each(lambda one: every(one.states, one.later, one.formula)),
    ),
    structural(
        "routes",
        "3.2.3",
        CHECKPOINTS,
        "Routes after the boundary are equal: as many",
        each(lambda one: every(one.routes, one.later, one.formula)),
    ),
    *_CONCLUSIONS,
    empirical("fp32", "2.4.3", LAYERS, "Layers that the FP32 difference rebuilds", of_each(lambda one: one.fp32)),
    empirical(
        "differing",
        "3.2.3",
        UNITS,
        "Values in which branch and native differ",
        of_each(lambda one: f"{one.differing_values}/{one.values}"),
    ),
    empirical(
        "layers", "3.2.3", LAYERS, "Layers in which they differ", of_each(lambda one: f"{one.differing_layers}/{one.layers}")
    ),
    empirical("max_abs", "3.2.3", UNITS, "Largest difference of a value", of_each(lambda one: f"{one.max_abs:g}")),
    prompts_separated(UNITS),
)

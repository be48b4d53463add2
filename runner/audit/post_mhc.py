"""Claims about the post-mHC substitution (study 2.4.2, 3.2.2): how much was compared, by formula, and that all of it is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, grouped
from runner.audit.geometry import Geometry
from runner.audit.ledger import Check, Claim, Tally, empirical, every, structural
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
from schemas.tables import POST_MHC_CHECKPOINTS, POST_MHC_PREFORK, POST_MHC_UNITS


@dataclass(frozen=True, kw_only=True)
class PostMhcControl(Control):
    """prefork, vectors: rows of the comparison that are equal. rebuilt: the substituted endpoint is the branch's."""

    prefork: Tally
    rebuilt: bool
    reconstruction_linf: float
    vectors: Tally
    delta_linf: float

    @property
    def vectors_expected(self) -> int:
        return (self.layers - self.fork_layer) + (self.decode_inputs - 1) * self.layers

    @property
    def vectors_formula(self) -> str:
        return f"({self.layers}-{self.fork_layer})+{self.decode_inputs - 1}*{self.layers}"


PostMhcFigures = Figures[PostMhcControl]


def measure(evidence: Evidence) -> PostMhcFigures:
    prefork = grouped(evidence.rows(POST_MHC_PREFORK.name), "prompt_id")
    checkpoints = grouped(evidence.rows(POST_MHC_CHECKPOINTS.name), "prompt_id")
    geometry = None if evidence.checkpoint is None else Geometry.of(evidence.checkpoint.config)
    rows = evidence.rows(POST_MHC_UNITS.name)
    return PostMhcFigures(
        prompts=len(evidence.prompts),
        controls=tuple(_control(row, prefork[row["prompt_id"]], checkpoints[row["prompt_id"]], geometry) for row in rows),
    )


def _control(row: Row, prefork: Sequence[Row], checkpoints: Sequence[Row], geometry: Geometry | None) -> PostMhcControl:
    before = Tally.of(
        (
            one["branch_sha256"] == one["native_sha256"] and one["linf"] == 0 and one["equal"],
            f"layer {one['layer']} before the fork",
            one[FILE],
        )
        for one in prefork
    )
    endpoints = [one for one in checkpoints if one["branch_sha256"] is not None]
    vectors = equal(endpoints, ("branch_sha256", "substituted_sha256"), "equal", distance="linf")
    routes = equal(checkpoints, ("branch_experts", "substituted_experts"), "route_equal")
    shared = concluded(row)
    found = {"prefork": before, "vectors": vectors, "routes": routes, "predictions": shared["predictions"]}
    return PostMhcControl(
        **shared,
        values=row["endpoint_values"],
        prefork=before,
        rebuilt=row["branch_endpoint_sha256"] == row["substituted_endpoint_sha256"],
        reconstruction_linf=row["reconstruction_linf"],
        vectors=vectors,
        routes=routes,
        delta_linf=row["delta_linf"],
        geometry_values=None if geometry is None else geometry.post_mhc_values,
        summary=Tally.of(
            (
                (row[f"{what}_equal"], row[f"{what}_compared"]) == (tally.good, tally.total),
                f"{what}: {row[f'{what}_equal']}/{row[f'{what}_compared']}, the rows say {tally}",
                row[FILE],
            )
            for what, tally in found.items()
        ),
    )


def _endpoint(control: PostMhcControl) -> Check:
    right = control.rebuilt and control.reconstruction_linf == 0
    return Check(f"L-inf {control.reconstruction_linf:g}", "equal bits, L-inf 0", right, "" if right else "other bits")


CHECKPOINTS, UNITS = POST_MHC_CHECKPOINTS.name, POST_MHC_UNITS.name

_CONCLUSIONS: tuple[Claim[PostMhcFigures], ...] = conclusions(UNITS, predictions="2.4.2, 3.2.2", texts="3.2.2")

CLAIMS: tuple[Claim[PostMhcFigures], ...] = (
    a_control_a_prompt("2.4.2", UNITS),
    structural(
        "prefork",
        "3.2.2",
        POST_MHC_PREFORK.name,
        "Layers before the fork f do not know of it",
        each(lambda one: every(one.prefork, one.fork_layer)),
    ),
    structural("endpoint", "3.2.2", UNITS, "Native plus difference is the branch's endpoint bit for bit", each(_endpoint)),
    has_values("2.4.2", UNITS, "An endpoint has the values of all streams", "streams*hidden size"),
    structural(
        "vectors",
        "2.4.2, 3.2.2",
        CHECKPOINTS,
        "Post-mHC states from the endpoint on are equal: (L-f)+(n-1)L of them",
        each(lambda one: every(one.vectors, one.vectors_expected, one.vectors_formula)),
    ),
    structural(
        "routes",
        "2.4.2, 3.2.2",
        CHECKPOINTS,
        "All routes are equal: nL of them",
        each(lambda one: every(one.routes, one.decode_inputs * one.layers, f"{one.decode_inputs}*{one.layers}")),
    ),
    *_CONCLUSIONS,
    empirical(
        "delta",
        "3.2.2",
        UNITS,
        "Largest component of the endpoint difference",
        of_each(lambda one: f"{one.delta_linf:.9g}"),
    ),
    prompts_separated(UNITS),
)

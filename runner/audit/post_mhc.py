"""Claims about the post-mHC substitution (study 2.4.2, 3.2.2): how much was compared, by formula, and that all of it is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, first_difference, grouped
from runner.audit.geometry import Geometry
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from schemas.tables import POST_MHC_CHECKPOINTS, POST_MHC_PREFORK, POST_MHC_UNITS


@dataclass(frozen=True)
class PostMhcControl:
    """The control on one prompt. prefork, vectors, routes: rows of the comparison that are equal. rebuilt: the substituted
    endpoint is the branch's. values: of an endpoint; geometry_values: what the checkpoint's geometry gives, None where it is
    not at hand. decided: what the row says of native is what the token IDs say. summary: counts of the unit's row that its
    detail rows confirm.
    """

    label: str
    layers: int
    fork_layer: int
    decode_inputs: int
    values: int
    prefork: Tally
    rebuilt: bool
    reconstruction_linf: float
    vectors: Tally
    routes: Tally
    predictions: Tally
    text_equal: bool
    delta_linf: float
    separated: bool | None = None
    decided: bool | None = None
    geometry_values: int | None = None
    summary: Tally | None = None

    @property
    def vectors_expected(self) -> int:
        return (self.layers - self.fork_layer) + (self.decode_inputs - 1) * self.layers

    @property
    def vectors_formula(self) -> str:
        return f"({self.layers}-{self.fork_layer})+{self.decode_inputs - 1}*{self.layers}"


@dataclass(frozen=True)
class PostMhcFigures:
    prompts: int
    controls: tuple[PostMhcControl, ...]


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
    vectors = Tally.of(
        (one["branch_sha256"] == one["substituted_sha256"] and one["linf"] == 0 and one["equal"], _where(one), one[FILE])
        for one in checkpoints
        if one["branch_sha256"] is not None
    )
    routes = Tally.of(
        (one["branch_experts"] == one["substituted_experts"] and one["route_equal"], _where(one), one[FILE])
        for one in checkpoints
    )
    first = first_difference(row["native_token_ids"], row["branch_token_ids"])
    pairs = list(zip(row["branch_token_ids"], row["substituted_token_ids"], strict=False))
    predictions = Tally.of((one == other, f"prediction {place}", row[FILE]) for place, (one, other) in enumerate(pairs, start=1))
    found = {"prefork": before, "vectors": vectors, "routes": routes, "predictions": predictions}
    return PostMhcControl(
        label=str(row["prompt_id"]),
        layers=row["layers"],
        fork_layer=row["fork_layer"],
        decode_inputs=row["decode_inputs"],
        values=row["endpoint_values"],
        prefork=before,
        rebuilt=row["branch_endpoint_sha256"] == row["substituted_endpoint_sha256"],
        reconstruction_linf=row["reconstruction_linf"],
        vectors=vectors,
        routes=routes,
        predictions=predictions,
        text_equal=row["branch_text"] == row["substituted_text"],
        delta_linf=row["delta_linf"],
        separated=row["native_token_ids"] != row["branch_token_ids"],
        decided=(row["separated"], row["first_difference"]) == (first is not None, first),
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


def _where(one: Row) -> str:
    return f"position {one['position']}, layer {one['layer']}"


def _each(look: Callable[[PostMhcControl], Check | Absent]) -> Callable[[PostMhcFigures], Check | Absent]:
    def of_all(figures: PostMhcFigures) -> Check | Absent:
        looked = [(control.label, look(control)) for control in figures.controls]
        absent = next((one for _, one in looked if isinstance(one, Absent)), None)
        return absent or together((label, one) for label, one in looked if isinstance(one, Check))

    return of_all


def _endpoint(control: PostMhcControl) -> Check:
    right = control.rebuilt and control.reconstruction_linf == 0
    return Check(f"L-inf {control.reconstruction_linf:g}", "equal bits, L-inf 0", right, "" if right else "other bits")


def _values(control: PostMhcControl) -> Check | Absent:
    if control.geometry_values is None:
        return Absent("the run's checkpoint is not at hand")
    return same(control.values, control.geometry_values, "streams*hidden size")


def _decided(control: PostMhcControl) -> Check | Absent:
    return UNPUBLISHED if control.decided is None else same("yes" if control.decided else "no", "yes")


def _texts(control: PostMhcControl) -> Check:
    return same("equal" if control.text_equal else "another", "equal")


def _separated(figures: PostMhcFigures) -> str | Absent:
    known = [control.separated for control in figures.controls if control.separated is not None]
    return f"{sum(known)} of {len(known)} prompts" if known else UNPUBLISHED


CHECKPOINTS, UNITS = POST_MHC_CHECKPOINTS.name, POST_MHC_UNITS.name

CLAIMS: tuple[Claim[PostMhcFigures], ...] = (
    structural("controls", "2.4.2", UNITS, "A control a prompt", lambda one: same(len(one.controls), one.prompts)),
    structural(
        "prefork",
        "3.2.2",
        POST_MHC_PREFORK.name,
        "Layers before the fork f do not know of it",
        _each(lambda one: every(one.prefork, one.fork_layer)),
    ),
    structural("endpoint", "3.2.2", UNITS, "Native plus difference is the branch's endpoint bit for bit", _each(_endpoint)),
    structural("values", "2.4.2", UNITS, "An endpoint has the values of all streams", _each(_values)),
    structural(
        "vectors",
        "2.4.2, 3.2.2",
        CHECKPOINTS,
        "Post-mHC states from the endpoint on are equal: (L-f)+(n-1)L of them",
        _each(lambda one: every(one.vectors, one.vectors_expected, one.vectors_formula)),
    ),
    structural(
        "routes",
        "2.4.2, 3.2.2",
        CHECKPOINTS,
        "All routes are equal: nL of them",
        _each(lambda one: every(one.routes, one.decode_inputs * one.layers, f"{one.decode_inputs}*{one.layers}")),
    ),
    structural(
        "predictions",
        "2.4.2, 3.2.2",
        UNITS,
        "All predictions are equal: n+1 of them",
        _each(lambda one: every(one.predictions, one.decode_inputs + 1, f"{one.decode_inputs}+1")),
    ),
    structural("texts", "3.2.2", UNITS, "The texts are equal", _each(_texts)),
    structural("decided", "2.8", UNITS, "Ordered token IDs decide what separated", _each(_decided)),
    structural(
        "summary",
        "A.3",
        UNITS,
        "The counts of a control are those of its rows",
        _each(lambda one: UNPUBLISHED if one.summary is None else every(one.summary)),
    ),
    empirical(
        "delta",
        "3.2.2",
        UNITS,
        "Largest component of the endpoint difference",
        lambda figures: ", ".join(f"{one.delta_linf:.9g}" for one in figures.controls),
    ),
    empirical("separated", "3.2.3", UNITS, "Prompts whose native continuation is another", _separated),
)

"""Claims about the persistent-state substitution (study 2.4.3, 3.2.3): size of the state, its rebuilding, what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row, first_difference, grouped
from runner.audit.geometry import Geometry
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from schemas.tables import PERSISTENT_STATE_CHECKPOINTS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_UNITS


@dataclass(frozen=True)
class StateControl:
    """The control on one prompt. values: of the state at the boundary; geometry_values: by formula, None without the
    checkpoint. untouched: layers up to the fork's whose record is native's. fp32, fp64: layer records that the difference
    rebuilds. post_mhc, states, routes: rows after the boundary that are equal. decided: what the row says of native is what the
    token IDs say. summary: counts of the unit's row that its detail rows confirm.
    """

    label: str
    layers: int
    fork_layer: int
    decode_inputs: int
    values: int
    differing_values: int
    differing_layers: int
    max_abs: float
    untouched: Tally
    fp32: Tally
    fp64: Tally
    same_next_token: bool
    post_mhc: Tally
    states: Tally
    routes: Tally
    predictions: Tally
    text_equal: bool
    separated: bool
    geometry_values: int | None = None
    decided: bool | None = None
    summary: Tally | None = None

    @property
    def later(self) -> int:
        """Layer checkpoints after the boundary."""
        return (self.decode_inputs - 1) * self.layers

    @property
    def formula(self) -> str:
        return f"{self.decode_inputs - 1}*{self.layers}"


@dataclass(frozen=True)
class StateFigures:
    prompts: int
    controls: tuple[StateControl, ...]


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
    def equal(what: str, columns: tuple[str, str], flag: str, distance: str | None) -> Tally:
        return Tally.of(
            (
                one[columns[0]] == one[columns[1]] and one[flag] and (distance is None or one[distance] == 0),
                f"position {one['position']}, layer {one['layer']}: {what}",
                one[FILE],
            )
            for one in checkpoints
        )

    def records(column: str) -> Tally:
        return Tally.of((one[column], f"layer {one['layer']}: {column}", one[FILE]) for one in layers)

    differing = [one for one in layers if one["branch_sha256"] != one["native_sha256"]]
    first = first_difference(row["native_token_ids"], row["branch_token_ids"])
    pairs = list(zip(row["branch_token_ids"], row["substituted_token_ids"], strict=False))
    post_mhc = equal("post-mHC", ("branch_post_mhc_sha256", "substituted_post_mhc_sha256"), "post_mhc_equal", "post_mhc_linf")
    states = equal(
        "persistent state", ("branch_state_sha256", "substituted_state_sha256"), "state_equal", "state_differing_values"
    )
    routes = equal("route", ("branch_experts", "substituted_experts"), "route_equal", None)
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
        label=str(row["prompt_id"]),
        layers=row["layers"],
        fork_layer=row["fork_layer"],
        decode_inputs=row["decode_inputs"],
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
        predictions=Tally.of(
            (one == other, f"prediction {place}", row[FILE]) for place, (one, other) in enumerate(pairs, start=1)
        ),
        text_equal=row["branch_text"] == row["substituted_text"],
        separated=row["native_token_ids"] != row["branch_token_ids"],
        decided=(row["separated"], row["first_difference"]) == (first is not None, first),
        geometry_values=None if geometry is None else geometry.state_values(row["fork_position"]),
        summary=Tally.of(
            (row[column] == total, f"{column}: {row[column]}, the rows say {total}", row[FILE]) for column, total in sums.items()
        ),
    )


def _each(look: Callable[[StateControl], Check | Absent]) -> Callable[[StateFigures], Check | Absent]:
    def of_all(figures: StateFigures) -> Check | Absent:
        looked = [(control.label, look(control)) for control in figures.controls]
        absent = next((one for _, one in looked if isinstance(one, Absent)), None)
        return absent or together((label, one) for label, one in looked if isinstance(one, Check))

    return of_all


def _of_each(look: Callable[[StateControl], object]) -> Callable[[StateFigures], str]:
    return lambda figures: ", ".join(str(look(control)) for control in figures.controls)


def _values(control: StateControl) -> Check | Absent:
    if control.geometry_values is None:
        return Absent("the run's checkpoint is not at hand")
    return same(control.values, control.geometry_values, "the geometry's formula")


def _topology(control: StateControl) -> Check:
    """Only layers after the fork's can differ, as that one's attention was committed before its experts were added up."""
    most = control.layers - control.fork_layer - 1
    right = 0 < control.differing_layers <= most and control.differing_values >= control.differing_layers
    formula = f"{control.layers}-{control.fork_layer}-1"
    return Check(f"{control.differing_layers} layers differ", f"1 to {most} = {formula}", right)


def _next_token(control: StateControl) -> Check:
    return same("the same" if control.same_next_token else "different ones", "the same")


def _decided(control: StateControl) -> Check | Absent:
    return UNPUBLISHED if control.decided is None else same("yes" if control.decided else "no", "yes")


def _texts(control: StateControl) -> Check:
    return same("equal" if control.text_equal else "another", "equal")


CHECKPOINTS, LAYERS, UNITS = PERSISTENT_STATE_CHECKPOINTS.name, PERSISTENT_STATE_LAYERS.name, PERSISTENT_STATE_UNITS.name

CLAIMS: tuple[Claim[StateFigures], ...] = (
    structural("controls", "2.4.3", UNITS, "A control a prompt", lambda one: same(len(one.controls), one.prompts)),
    structural("values", "2.4.3", UNITS, "The state at the boundary has the values of its geometry", _each(_values)),
    structural(
        "untouched",
        "3.2.3",
        LAYERS,
        "Layers up to the fork's keep the native state",
        _each(lambda one: every(one.untouched, one.fork_layer + 1, f"{one.fork_layer}+1")),
    ),
    structural("topology", "3.2.3", LAYERS, "Differences are in later layers only, and there are some", _each(_topology)),
    structural(
        "fp64",
        "3.2.3",
        LAYERS,
        "The FP64 difference rebuilds every layer's record",
        _each(lambda one: every(one.fp64, one.layers)),
    ),
    structural("next_token", "3.2.3", UNITS, "All executions predict one next token, unforced", _each(_next_token)),
    structural(
        "post_mhc",
        "3.2.3",
        CHECKPOINTS,
        "Post-mHC states after the boundary are equal: (n-1)L of them",
        _each(lambda one: every(one.post_mhc, one.later, one.formula)),
    ),
    structural(
        "states",
        "3.2.3",
        CHECKPOINTS,
        "Persistent states after the boundary are equal: as many",
        _each(lambda one: every(one.states, one.later, one.formula)),
    ),
    structural(
        "routes",
        "3.2.3",
        CHECKPOINTS,
        "Routes after the boundary are equal: as many",
        _each(lambda one: every(one.routes, one.later, one.formula)),
    ),
    structural(
        "predictions",
        "3.2.3",
        UNITS,
        "All predictions are equal: n+1 of them",
        _each(lambda one: every(one.predictions, one.decode_inputs + 1, f"{one.decode_inputs}+1")),
    ),
    structural("texts", "3.2.3", UNITS, "The texts are equal", _each(_texts)),
    structural("decided", "2.8", UNITS, "Ordered token IDs decide what separated", _each(_decided)),
    structural(
        "summary",
        "A.3",
        UNITS,
        "The counts of a control are those of its rows",
        _each(lambda one: UNPUBLISHED if one.summary is None else every(one.summary)),
    ),
    empirical("fp32", "2.4.3", LAYERS, "Layers that the FP32 difference rebuilds", _of_each(lambda one: one.fp32)),
    empirical(
        "differing",
        "3.2.3",
        UNITS,
        "Values in which branch and native differ",
        _of_each(lambda one: f"{one.differing_values}/{one.values}"),
    ),
    empirical(
        "layers", "3.2.3", LAYERS, "Layers in which they differ", _of_each(lambda one: f"{one.differing_layers}/{one.layers}")
    ),
    empirical("max_abs", "3.2.3", UNITS, "Largest difference of a value", _of_each(lambda one: f"{one.max_abs:g}")),
    empirical(
        "separated",
        "3.2.3",
        UNITS,
        "Prompts whose native continuation is another",
        lambda figures: f"{sum(one.separated for one in figures.controls)} of {len(figures.controls)} prompts",
    ),
)

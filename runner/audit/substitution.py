"""What the claims about both endpoint substitutions share: a control a prompt, and what it concludes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from runner.audit.evidence import FILE, Row, first_difference
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together


@dataclass(frozen=True, kw_only=True)
class Control:
    """The control on one prompt. values: of what is substituted; geometry_values: by the checkpoint's geometry, None where it is
    not at hand. routes: rows of the comparison that are equal. decided: what the row says of native is what the token IDs say.
    summary: counts of the unit's row that its detail rows confirm.
    """

    label: str
    layers: int
    fork_layer: int
    decode_inputs: int
    values: int
    routes: Tally
    predictions: Tally
    text_equal: bool
    separated: bool | None = None
    decided: bool | None = None
    geometry_values: int | None = None
    summary: Tally | None = None


C = TypeVar("C", bound=Control)


@dataclass(frozen=True)
class Figures(Generic[C]):
    """The controls of a run, which has so many prompts."""

    prompts: int
    controls: tuple[C, ...]


def concluded(row: Row) -> dict[str, Any]:
    """The fields of a Control that its unit's row alone decides."""
    first = first_difference(row["native_token_ids"], row["branch_token_ids"])
    pairs = zip(row["branch_token_ids"], row["substituted_token_ids"], strict=False)
    return {
        "label": str(row["prompt_id"]),
        "layers": row["layers"],
        "fork_layer": row["fork_layer"],
        "decode_inputs": row["decode_inputs"],
        "predictions": Tally.of(
            (one == other, f"prediction {place}", row[FILE]) for place, (one, other) in enumerate(pairs, start=1)
        ),
        "text_equal": row["branch_text"] == row["substituted_text"],
        "separated": row["native_token_ids"] != row["branch_token_ids"],
        "decided": (row["separated"], row["first_difference"]) == (first is not None, first),
    }


def equal(checkpoints: Iterable[Row], columns: tuple[str, str], flag: str, *, distance: str = "", what: str = "") -> Tally:
    """Rows in which two columns are equal, and the row says so by its flag, and by a distance of 0 where there is one."""
    return Tally.of(
        (
            one[columns[0]] == one[columns[1]] and one[flag] and (not distance or one[distance] == 0),
            f"position {one['position']}, layer {one['layer']}" + (f": {what}" if what else ""),
            one[FILE],
        )
        for one in checkpoints
    )


def each(look: Callable[[C], Check | Absent]) -> Callable[[Figures[C]], Check | Absent]:
    """The same of every control; absent when it is so of one."""

    def of_all(figures: Figures[C]) -> Check | Absent:
        looked = [(control.label, look(control)) for control in figures.controls]
        absent = next((one for _, one in looked if isinstance(one, Absent)), None)
        return absent or together((label, one) for label, one in looked if isinstance(one, Check))

    return of_all


def of_each(look: Callable[[C], object]) -> Callable[[Figures[C]], str]:
    """A figure of every control, in a row."""
    return lambda figures: ", ".join(str(look(control)) for control in figures.controls)


def a_control_a_prompt(section: str, table: str) -> Claim[Figures[C]]:
    return structural("controls", section, table, "A control a prompt", lambda one: same(len(one.controls), one.prompts))


def has_values(section: str, table: str, statement: str, formula: str) -> Claim[Figures[C]]:
    """What is substituted is as large as the geometry says, which `formula` explains."""

    def look(control: C) -> Check | Absent:
        if control.geometry_values is None:
            return Absent("the run's checkpoint is not at hand")
        return same(control.values, control.geometry_values, formula)

    return structural("values", section, table, statement, each(look))


def conclusions(table: str, *, predictions: str, texts: str) -> tuple[Claim[Figures[C]], ...]:
    """That branch and substituted end alike, and that rows and counts agree. predictions, texts: their sections of the study."""
    return (
        structural(
            "predictions",
            predictions,
            table,
            "All predictions are equal: n+1 of them",
            each(lambda one: every(one.predictions, one.decode_inputs + 1, f"{one.decode_inputs}+1")),
        ),
        structural(
            "texts",
            texts,
            table,
            "The texts are equal",
            each(lambda one: same("equal" if one.text_equal else "another", "equal")),
        ),
        structural("decided", "2.8", table, "Ordered token IDs decide what separated", each(_decided)),
        structural(
            "summary",
            "A.3",
            table,
            "The counts of a control are those of its rows",
            each(lambda one: UNPUBLISHED if one.summary is None else every(one.summary)),
        ),
    )


def _texts(control: Control) -> Check:
    return same("equal" if control.text_equal else "another", "equal")


def _decided(control: Control) -> Check | Absent:
    return UNPUBLISHED if control.decided is None else same("yes" if control.decided else "no", "yes")


def prompts_separated(table: str) -> Claim[Figures[C]]:
    def look(figures: Figures[C]) -> str | Absent:
        known = [control.separated for control in figures.controls if control.separated is not None]
        return f"{sum(known)} of {len(known)} prompts" if known else UNPUBLISHED

    return empirical("separated", "3.2.3", table, "Prompts whose native continuation is another", look)

"""Claims about breadth (study 3.5, B.3): the accounting of stages, and the fork of every prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import kernels
from runner.audit.evidence import FILE, Evidence, Row, first_difference, grouped
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from runner.protocols.breadth import CONTINUED, REPEATED
from schemas.job import BreadthJob
from schemas.tables import BREADTH_CLASSES, BREADTH_UNITS

Share = tuple[int, int]


@dataclass(frozen=True)
class StageFigures:
    """One horizon. at_risk: prompts that this stage saw and none before had separated. new: of these, separated here.
    cumulative: separated here or before. differing: rows that show a separation; repeated: of these, of prompts separated
    before. by_language, by_kind: group -> (separated so far, prompts).
    """

    horizon: int
    at_risk: int
    new: int
    cumulative: int
    differing: int
    repeated: int
    by_language: Mapping[str, Share] | None = None
    by_kind: Mapping[str, Share] | None = None


@dataclass(frozen=True)
class BreadthFigures:
    """all_distinct, all_not_native: prompts all of whose classes have different post-mHC states, and other ones than native.
    lengths: rows with as many tokens as their horizon. classes: (prompt, horizon) pairs with every class once, and its two
    orders. recounted: rows whose counts are those of their classes. farthest: rows whose branch is the class farthest from
    native. decided: rows whose separation is that of their token IDs. carried: rows that repeat the stage before.
    """

    prompts: int
    terms: int
    stages: tuple[StageFigures, ...]
    all_distinct: Tally
    all_not_native: Tally
    lengths: Tally | None = None
    classes: Tally | None = None
    recounted: Tally | None = None
    farthest: Tally | None = None
    decided: Tally | None = None
    carried: Tally | None = None


def measure(evidence: Evidence) -> BreadthFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, BreadthJob)
    rows = evidence.rows(BREADTH_UNITS.name)
    classes = grouped(evidence.rows(BREADTH_CLASSES.name), "prompt_id", "horizon")
    first = [row for row in rows if row["horizon"] == job.horizons[0]]
    own = [(row, classes[row["prompt_id"], row["horizon"]]) for row in rows]
    return BreadthFigures(
        prompts=len(evidence.prompts),
        terms=len(rows[0]["fork_experts"]) if rows else 0,
        stages=tuple(_stages(evidence, job.horizons, rows)),
        all_distinct=Tally.of(
            (
                len({one["post_mhc_sha256"] for one in classes[row["prompt_id"], row["horizon"]]}) == row["structural_classes"],
                _where(row),
                row[FILE],
            )
            for row in first
        ),
        all_not_native=Tally.of(
            (not any(one["equals_native"] for one in classes[row["prompt_id"], row["horizon"]]), _where(row), row[FILE])
            for row in first
        ),
        lengths=Tally.of(
            (
                all(len(row[column]) == row["horizon"] for column in CONTINUED),
                f"{_where(row)}: another number of tokens",
                row[FILE],
            )
            for row in rows
        ),
        classes=Tally.of((_whole(row, its), f"{_where(row)}: {len(its)} classes", row[FILE]) for row, its in own),
        recounted=Tally.of((_counts(its) == _claimed(row), _where(row), row[FILE]) for row, its in own),
        farthest=Tally.of(
            (_is_farthest(row, its), f"{_where(row)}: class {row['selected_class']}", row[FILE]) for row, its in own
        ),
        decided=Tally.of((_decided(row), _where(row), row[FILE]) for row in rows),
        carried=Tally.of(_carried(rows)),
    )


def _stages(evidence: Evidence, horizons: Sequence[int], rows: Sequence[Row]) -> Iterator[StageFigures]:
    separated: set[str] = set()
    prompts = evidence.run.experiment.prompts
    for horizon in horizons:
        stage = [row for row in rows if row["horizon"] == horizon]
        differing = {str(row["prompt_id"]) for row in stage if row["native_token_ids"] != row["branch_token_ids"]}
        before, separated = separated, separated | differing

        def shares(group_of: Callable[[str], str], separated: set[str] = separated) -> dict[str, Share]:
            groups: dict[str, list[str]] = {}
            for prompt in prompts:
                groups.setdefault(group_of(prompt.prompt_id), []).append(prompt.prompt_id)
            return {group: (len(separated & set(members)), len(members)) for group, members in sorted(groups.items())}

        languages = {prompt.prompt_id: prompt.language for prompt in prompts}
        kinds = {prompt.prompt_id: prompt.kind for prompt in prompts}
        yield StageFigures(
            horizon=horizon,
            at_risk=len({str(row["prompt_id"]) for row in stage} - before),
            new=len(differing - before),
            cumulative=len(separated),
            differing=len(differing),
            repeated=len(differing & before),
            by_language=shares(languages.__getitem__),
            by_kind=shares(kinds.__getitem__),
        )


def _whole(row: Row, classes: Sequence[Row]) -> bool:
    """Every class once, with the two orders that the symmetry of the first two terms gives it (study 2.6)."""
    algebra = list(enumerate(kernels.structural_classes(len(row["fork_experts"]))))
    found = sorted((one["structural_class"], (one["order_low"], one["order_high"])) for one in classes)
    return found == algebra and row["structural_classes"] == len(algebra)


def _counts(classes: Sequence[Row]) -> tuple[int, int, int]:
    outputs, states = ({one[column] for one in classes} for column in ("moe_output_sha256", "post_mhc_sha256"))
    return len(outputs), len(states), sum(not one["equals_native"] for one in classes)


def _claimed(row: Row) -> tuple[int, int, int]:
    return row["distinct_moe_outputs"], row["distinct_post_mhc"], row["differing_from_native"]


def _is_farthest(row: Row, classes: Sequence[Row]) -> bool:
    if not classes:
        return False
    farthest = min(classes, key=lambda one: (-one["linf_post_mhc"], one["structural_class"]))
    selected = (row["selected_class"], row["selected_order"], row["selected_linf"], row["branch_post_mhc_sha256"])
    columns = ("structural_class", "order_low", "linf_post_mhc", "post_mhc_sha256")
    return selected == tuple(farthest[column] for column in columns)


def _decided(row: Row) -> bool:
    """separated, first_difference and text_differs are what tokens and texts say."""
    first = first_difference(row["native_token_ids"], row["branch_token_ids"])
    said = (row["separated"], row["first_difference"], row["text_differs"])
    return said == (first is not None, first, row["native_text"] != row["branch_text"])


def _carried(rows: Sequence[Row]) -> Iterator[tuple[bool, str, str]]:
    before: dict[str, Row] = {}
    for row in sorted(rows, key=lambda one: int(one["horizon"])):
        earlier = before.get(row["prompt_id"])
        before[row["prompt_id"]] = row
        if earlier is not None:
            right = all(row[column] == earlier[column] for column in REPEATED)
            right &= all(row[column][: earlier["horizon"]] == earlier[column] for column in CONTINUED)
            yield right, f"{_where(row)} repeats horizon {earlier['horizon']}", str(row[FILE])


def _where(row: Row) -> str:
    return f"{row['prompt_id']}, horizon {row['horizon']}"


def _each(look: Callable[[StageFigures], Check]) -> Callable[[BreadthFigures], Check | Absent]:
    return lambda figures: together((f"{stage.horizon}:", look(stage)) for stage in figures.stages)


def _at_risk(figures: BreadthFigures) -> Check | Absent:
    before = [0, *(stage.cumulative for stage in figures.stages)]
    return together(
        (f"{stage.horizon}:", same(stage.at_risk, figures.prompts - done, f"{figures.prompts}-{done}"))
        for stage, done in zip(figures.stages, before, strict=False)
    )


def _cumulative(figures: BreadthFigures) -> Check | Absent:
    events = [stage.new for stage in figures.stages]
    return together(
        (f"{stage.horizon}:", same(stage.cumulative, sum(events[:place]), "+".join(map(str, events[:place]))))
        for place, stage in enumerate(figures.stages, start=1)
    )


def _groups(figures: BreadthFigures) -> Check | Absent:
    checks = []
    for stage in figures.stages:
        for grouping, shares in (("by language", stage.by_language), ("by kind", stage.by_kind)):
            if shares is not None:
                separated, members = (sum(values) for values in zip(*shares.values(), strict=True))
                found = "+".join(f"{one}/{of}" for one, of in shares.values())
                right = (separated, members) == (stage.cumulative, figures.prompts)
                checks.append((f"{stage.horizon} {grouping}", Check(found, f"{stage.cumulative}/{figures.prompts}", right)))
    return together(checks) if checks else UNPUBLISHED


def _separations(figures: BreadthFigures) -> str:
    return ", ".join(f"{stage.horizon}: {stage.cumulative}/{figures.prompts}" for stage in figures.stages)


def _shares(column: str) -> Callable[[BreadthFigures], str]:
    """Shares of every stage that has them."""

    def figure(figures: BreadthFigures) -> str:
        lines = []
        for stage in figures.stages:
            shares: Mapping[str, Share] | None = getattr(stage, column)
            if shares is not None:
                lines.append(f"{stage.horizon}: " + " ".join(f"{group} {one}/{of}" for group, (one, of) in shares.items()))
        return ", ".join(lines)

    return figure


def _classes(figures: BreadthFigures) -> Check | Absent:
    check = UNPUBLISHED if figures.classes is None else every(figures.classes)
    if isinstance(check, Absent):
        return check
    each = f"{math.factorial(figures.terms) // 2} = {figures.terms}!/2 a prompt"
    return Check(check.found, f"{check.expected}, {each}", check.holds, check.fault, check.file)


UNITS, CLASSES = BREADTH_UNITS.name, BREADTH_CLASSES.name

CLAIMS: tuple[Claim[BreadthFigures], ...] = (
    structural("at_risk", "B.3", UNITS, "At risk is who has not separated before", _at_risk),
    structural("cumulative", "B.3", UNITS, "The cumulative count is the sum of new events", _cumulative),
    structural(
        "repeated",
        "B.3",
        UNITS,
        "New events are differing rows less repeated ones",
        _each(lambda one: same(one.new, one.differing - one.repeated, f"{one.differing}-{one.repeated}")),
    ),
    structural("groups", "3.5, B.3", UNITS, "Languages, and kinds, add up to the cohort", _groups),
    structural("lengths", "B.3", UNITS, "Every row has the tokens of its horizon", lambda one: every(one.lengths)),
    structural("decided", "2.8", UNITS, "Ordered token IDs decide what separated", lambda one: every(one.decided)),
    structural("carried", "B.3", UNITS, "A later stage repeats the earlier one bit for bit", lambda one: every(one.carried)),
    structural("classes", "2.6", CLASSES, "Every fork has its k!/2 classes of two orders", _classes),
    structural("recounted", "3.5", CLASSES, "Counts of states are those of the classes", lambda one: every(one.recounted)),
    structural("farthest", "2.4.7", CLASSES, "The branch is the class farthest from native", lambda one: every(one.farthest)),
    empirical("separation", "3.5", UNITS, "Prompts separated by horizon", _separations),
    empirical("language", "3.5, B.3", UNITS, "The same by language", _shares("by_language")),
    empirical("kind", "3.5, B.3", UNITS, "The same by kind", _shares("by_kind")),
    empirical(
        "distinct", "3.5", CLASSES, "Prompts all of whose classes have different states", lambda one: str(one.all_distinct)
    ),
    empirical("not_native", "3.5", CLASSES, "Prompts all of whose classes leave native", lambda one: str(one.all_not_native)),
)

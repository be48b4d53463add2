"""Claims about event direction (study 2.4.4, 3.3, 3.4, B.1, B.2): classes, labels, the sample, and its replays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import kernels
from runner.annotation.files import Annotation, agreement
from runner.audit.evidence import FILE, Evidence, Row, first_difference, grouped
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from runner.protocols.event_direction import RUNS, event_direction
from runner.protocols.event_direction_checks import OF_THE_EXECUTION
from runner.protocols.event_direction_sample import draw
from schemas.errors import InvalidInput
from schemas.job.event_direction import EventDirectionJob
from schemas.rules import UNDECIDED
from schemas.tables import EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_FORKS, EVENT_DIRECTION_REPLAYS

Volumes = Mapping[str, int]
"""Label -> classes."""


@dataclass(frozen=True)
class Annotated:
    """What two annotators said. confusion: (label of the first, of the second) -> items, None where only its diagonal is known.
    consensus: classes by the label both gave. moved: (provisional, consensus) -> classes whose two labels differ.
    """

    items: int
    agreed: int
    kappa: float | None
    consensus: Volumes
    moved: Mapping[tuple[str, str], int]
    confusion: Mapping[tuple[str, str], int] | None = None


@dataclass(frozen=True)
class Drawn:
    """A stratum of the sample."""

    label: str
    eligible: int
    drawn: int


@dataclass(frozen=True)
class EventFigures:
    """terms: k. classes: that were continued, each once. items: unique exact texts; item_classes:
    classes that say them. provisional: classes by the label of the rules. redrawn: sampled classes that the seed draws again.
    executions: of sampled classes; of these, `lengths` with all their tokens. tokens, digests, metadata: sampled classes whose
    two executions agree. prefixes: executions that begin as the class began. decided: classes whose
    first difference from native is that of their token IDs. long_texts: different texts of full length.
    """

    prompts: int
    terms: int
    classes: int
    items: int
    item_classes: int
    provisional: Volumes
    per_label: int
    sample: tuple[Drawn, ...]
    executions: int
    lengths: Tally
    tokens: Tally
    digests: Tally
    metadata: Tally
    long_texts: int
    redrawn: Tally | None = None
    prefixes: Tally | None = None
    decided: Tally | None = None
    annotated: Annotated | None = None

    @property
    def sampled(self) -> int:
        return sum(stratum.drawn for stratum in self.sample)


def measure(evidence: Evidence) -> EventFigures:
    job = event_direction(evidence.run.experiment.job)
    forks, rows = evidence.rows(EVENT_DIRECTION_FORKS.name), evidence.rows(EVENT_DIRECTION_CLASSES.name)
    replays = evidence.rows(EVENT_DIRECTION_REPLAYS.name)
    native = {row["prompt_id"]: row for row in reversed(forks)}
    algebra = kernels.structural_classes(len(forks[0]["fork_experts"])) if forks else []
    right = [row for row in rows if _in_algebra(row, algebra)]
    texts = Counter((str(row["prompt_id"]), str(row["text"])) for row in rows)
    provisional: Counter[str] = Counter(dict.fromkeys(job.rules.labels, 0))
    for (_, text), count in texts.items():
        provisional[job.rules.label(text)] += count
    branches = grouped(replays, "prompt_id", "structural_class")
    began = {(row["prompt_id"], row["structural_class"]): row for row in rows}
    return EventFigures(
        prompts=len(evidence.prompts),
        terms=len(forks[0]["fork_experts"]) if forks else 0,
        classes=len({(row["prompt_id"], row["structural_class"]) for row in right}),
        items=len(texts),
        item_classes=texts.total(),
        provisional=provisional,
        per_label=job.sample.per_label * len(evidence.prompts),
        sample=tuple(_sample(job, rows, set(branches))),
        executions=len(replays),
        lengths=Tally.of((len(row["token_ids"]) == job.replay_horizon, _where(row), row[FILE]) for row in replays),
        tokens=Tally.of(_pair(group, ("token_ids",)) for group in branches.values()),
        digests=Tally.of(_pair(group, ("token_sha256",)) for group in branches.values()),
        metadata=Tally.of(_pair(group, _metadata(group)) for group in branches.values()),
        long_texts=len({row["text"] for row in replays}),
        redrawn=Tally.of(_redrawn(job, rows, branches)),
        prefixes=Tally.of(_prefix(row, began.get((row["prompt_id"], row["structural_class"]))) for row in replays),
        decided=Tally.of(_decided(row, native.get(row["prompt_id"])) for row in rows),
        annotated=_annotated(evidence),
    )


def _in_algebra(row: Row, algebra: Sequence[tuple[int, int]]) -> bool:
    number = row["structural_class"]
    return bool(0 <= number < len(algebra) and row["branch_order"] == algebra[number][0])


def _eligible(job: EventDirectionJob, rows: Sequence[Row]) -> dict[tuple[str, str], list[int]]:
    """(prompt ID, label) -> its classes, for the labels that are sampled."""
    eligible: dict[tuple[str, str], list[int]] = {}
    for prompt, group in grouped(rows, "prompt_id").items():
        for label in job.strata:
            eligible[prompt, label] = [row["structural_class"] for row in group if job.rules.label(row["text"]) == label]
    return eligible


def _sample(job: EventDirectionJob, rows: Sequence[Row], replayed: set[tuple[str, int]]) -> Iterator[Drawn]:
    for label in job.strata:
        own = {(prompt, one) for (prompt, its), classes in _eligible(job, rows).items() if its == label for one in classes}
        yield Drawn(label, len(own), len(own & replayed))


def _redrawn(
    job: EventDirectionJob, rows: Sequence[Row], branches: Mapping[tuple[str, int], Sequence[Row]]
) -> Iterator[tuple[bool, str, str]]:
    drawn = {
        (prompt, one) for (prompt, label), own in _eligible(job, rows).items() for one in draw(job.sample, prompt, label, own)
    }
    for prompt, one in sorted(drawn | set(branches)):
        why = "was not replayed" if (prompt, one) in drawn else "was replayed and is not in the sample"
        file = str(branches[prompt, one][0][FILE]) if (prompt, one) in branches else ""
        yield (prompt, one) in drawn and (prompt, one) in branches, f"{prompt}, class {one} {why}", file


def _pair(group: Sequence[Row], columns: Sequence[str]) -> tuple[bool, str, str]:
    """Both executions are there and agree in these columns."""
    both = sorted(row["run"] for row in group) == sorted(RUNS.values())
    equal = all(row[column] == group[0][column] for row in group for column in columns)
    return both and equal, f"{group[0]['prompt_id']}, class {group[0]['structural_class']}", str(group[-1][FILE])


def _metadata(group: Sequence[Row]) -> list[str]:
    said = {"token_ids", "token_sha256", "text", FILE}
    return [column for column in group[0] if column not in OF_THE_EXECUTION | said]


def _prefix(row: Row, began: Row | None) -> tuple[bool, str, str]:
    right = began is not None and row["token_ids"][: len(began["token_ids"])] == began["token_ids"]
    return right, f"{_where(row)} begins otherwise", str(row[FILE])


def _decided(row: Row, native: Row | None) -> tuple[bool, str, str]:
    right = native is not None and row["first_difference"] == first_difference(native["native_token_ids"], row["token_ids"])
    return right, f"{row['prompt_id']}, class {row['structural_class']}", str(row[FILE])


def _annotated(evidence: Evidence) -> Annotated | None:
    """What people said, or None before a filled form was taken in."""
    try:
        annotation = Annotation.of(evidence.run)
    except InvalidInput:  # a run without all its classes has no items to speak of
        return None
    labelled = annotation.labelled()
    if labelled is None:
        return None
    found = agreement(annotation.labels, labelled)
    consensus: Counter[str] = Counter()
    moved: Counter[tuple[str, str]] = Counter()
    for one in labelled:
        decided = one.consensus or UNDECIDED
        consensus[decided] += len(one.item.classes)
        if decided != one.item.label:
            moved[one.item.label, decided] += len(one.item.classes)
    kappa = None if found.kappa is None else float(found.kappa)
    return Annotated(found.items, found.agreed, kappa, consensus, moved, found.confusion)


def _where(row: Row) -> str:
    return f"{row['prompt_id']}, class {row['structural_class']}, replay {row['run']}"


def _sum(volumes: Volumes, total: int) -> Check:
    return Check("+".join(str(count) for count in volumes.values() if count), str(total), sum(volumes.values()) == total)


def _classes(one: EventFigures) -> Check:
    return same(one.classes, one.prompts * (math.factorial(one.terms) // 2), f"{one.prompts}*({one.terms}!/2)")


def _labels(figures: EventFigures) -> Check | Absent:
    sums = [("provisional", _sum(figures.provisional, figures.classes))]
    if figures.annotated is not None:
        sums.append(("consensus", _sum(figures.annotated.consensus, figures.classes)))
    return together(sums)


def _moves(figures: EventFigures) -> Check | Absent:
    """The consensus of a label is its provisional volume, plus what came, less what went."""
    if figures.annotated is None:
        return Absent("no filled form was taken in")
    consensus, moved = figures.annotated.consensus, figures.annotated.moved
    checks = []
    for label in dict.fromkeys([*figures.provisional, *consensus]):
        came = sum(count for (_, to), count in moved.items() if to == label)
        went = sum(count for (of, _), count in moved.items() if of == label)
        provisional = figures.provisional.get(label, 0)
        checks.append((label, same(consensus.get(label, 0), provisional + came - went, f"{provisional}+{came}-{went}")))
    return together(checks)


def _agreement(figures: EventFigures) -> Check | Absent:
    """Kappa is (p_o - p_e) / (1 - p_e) of the confusion; where only agreement is known, full agreement and 1 imply each other."""
    annotated = figures.annotated
    if annotated is None:
        return Absent("no filled form was taken in")
    found = f"{annotated.agreed}/{annotated.items}, kappa {annotated.kappa}"
    items = same(annotated.items, figures.items)
    if annotated.confusion is None:
        right = items.holds and (annotated.agreed == annotated.items) == (annotated.kappa == 1.0)
        return Check(found, f"{figures.items} items; kappa 1 where all agree", right)
    agreed = sum(count for (one, other), count in annotated.confusion.items() if one == other)
    kappa = _kappa(annotated.confusion)
    right = items.holds and agreed == annotated.agreed and sum(annotated.confusion.values()) == annotated.items
    close = kappa == annotated.kappa or (
        None not in (kappa, annotated.kappa) and abs((kappa or 0) - (annotated.kappa or 0)) < 1e-9
    )
    return Check(found, f"{agreed}/{figures.items}, kappa {kappa}, from the confusion", right and close)


def _kappa(confusion: Mapping[tuple[str, str], int]) -> float | None:
    items = sum(confusion.values())
    first, second = Counter[str](), Counter[str]()
    for (one, other), count in confusion.items():
        first[one] += count
        second[other] += count
    chance = sum(first[label] * second[label] for label in first)
    observed = sum(count for (one, other), count in confusion.items() if one == other)
    return None if chance == items**2 else (observed * items - chance) / (items**2 - chance)


def _sizes(figures: EventFigures) -> Check | Absent:
    return together(
        (
            one.label,
            Check(str(one.drawn), f"min({figures.per_label}, {one.eligible})", one.drawn == min(figures.per_label, one.eligible)),
        )
        for one in figures.sample
    )


def _volumes(volumes: Volumes) -> str:
    return ", ".join(f"{label} {count}" for label, count in volumes.items())


def _consensus(figures: EventFigures) -> str | Absent:
    return Absent("no filled form was taken in") if figures.annotated is None else _volumes(figures.annotated.consensus)


def _kappas(figures: EventFigures) -> str | Absent:
    if figures.annotated is None:
        return Absent("no filled form was taken in")
    return f"{figures.annotated.agreed}/{figures.annotated.items} agree, kappa {figures.annotated.kappa}"


def _executions(figures: EventFigures) -> Check:
    return same(figures.executions, len(RUNS) * figures.sampled, f"{len(RUNS)}*{figures.sampled}")


CLASSES, REPLAYS = EVENT_DIRECTION_CLASSES.name, EVENT_DIRECTION_REPLAYS.name

CLAIMS: tuple[Claim[EventFigures], ...] = (
    structural(
        "classes",
        "2.6, 3.3",
        CLASSES,
        "All k!/2 classes were continued, each by its lower order",
        _classes,
    ),
    structural(
        "items", "2.4.4", CLASSES, "Unique texts stand for every class once", lambda one: same(one.item_classes, one.classes)
    ),
    structural("labels", "3.3", CLASSES, "Volumes by label add up to the classes", _labels),
    structural("moves", "3.3", CLASSES, "Consensus volumes are provisional ones, plus and less what moved", _moves),
    structural("agreement", "3.3", CLASSES, "Agreement and kappa are those of the confusion", _agreement),
    structural("decided", "2.8", CLASSES, "Ordered token IDs decide where a class leaves native", lambda one: every(one.decided)),
    structural("sample", "2.4.4", REPLAYS, "The sample has its classes of each label, or all there are", _sizes),
    structural(
        "redrawn",
        "2.4.4",
        REPLAYS,
        "The seed draws the same sample again",
        lambda one: UNPUBLISHED if one.redrawn is None else every(one.redrawn, one.sampled),
    ),
    structural("executions", "3.4, B.2", REPLAYS, "Every sampled class was executed twice", _executions),
    structural(
        "lengths",
        "3.4, B.2",
        REPLAYS,
        "Every execution has all its tokens",
        lambda one: every(one.lengths, len(RUNS) * one.sampled),
    ),
    structural(
        "tokens", "3.4, B.2", REPLAYS, "Both executions give the same token IDs", lambda one: every(one.tokens, one.sampled)
    ),
    structural("replay_digests", "3.4, B.2", REPLAYS, "Their digests are equal", lambda one: every(one.digests, one.sampled)),
    structural("metadata", "B.2", REPLAYS, "They are executions of one branch", lambda one: every(one.metadata, one.sampled)),
    structural("prefixes", "2.4.4", REPLAYS, "They begin as the class began", lambda one: every(one.prefixes)),
    empirical(
        "continuations", "3.3", CLASSES, "Unique continuations of the classes", lambda one: f"{one.items} of {one.classes}"
    ),
    empirical("provisional", "2.4.4", CLASSES, "Classes by the rules", lambda one: _volumes(one.provisional)),
    empirical("consensus", "3.3", CLASSES, "Classes by both annotators", _consensus),
    empirical("kappa", "3.3", CLASSES, "How far the annotators agree", _kappas),
    empirical("long_texts", "3.3", REPLAYS, "Different texts of full length", lambda one: f"{one.long_texts} of {one.sampled}"),
)

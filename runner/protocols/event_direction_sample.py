"""From branches to annotation items and to the sample that is replayed (study 2.4.4).

An item is one exact text: people label texts, not classes, and equal texts are one item however many classes say it. Labels go
back to the classes by exact text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.protocol import Committed
from schemas.job.event_direction import EventDirectionJob, Sample
from schemas.rules import LabelRules
from schemas.tables.event_direction import EVENT_DIRECTION_CLASSES

CLASSES_STAGE = "classes"


@dataclass(frozen=True)
class Item:
    """One exact text of a prompt's branches. classes: those that say it, ascending. label: provisional, by the rules."""

    prompt_id: str
    text: str
    classes: tuple[int, ...]
    label: str


@dataclass(frozen=True)
class Stratum:
    """The classes of a prompt with one provisional label, and which of them were drawn, both ascending."""

    prompt_id: str
    label: str
    eligible: tuple[int, ...]
    drawn: tuple[int, ...]


def class_rows(committed: Committed) -> list[dict[str, Any]]:
    """Rows of event_direction_classes, in plan order."""
    rows: list[dict[str, Any]] = committed.table(CLASSES_STAGE, EVENT_DIRECTION_CLASSES.name).to_pylist()
    return rows


def items(rows: Iterable[Mapping[str, Any]], rules: LabelRules) -> list[Item]:
    """Unique exact texts; prompts in the order of the rows, the text of most classes first, then by its first class."""
    classes: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        classes.setdefault(row["prompt_id"], {}).setdefault(row["text"], []).append(int(row["structural_class"]))
    found = []
    for prompt_id, texts in classes.items():
        volume = sorted(texts, key=lambda text: (-len(texts[text]), min(texts[text])))
        found += [Item(prompt_id, text, tuple(sorted(texts[text])), rules.label(text)) for text in volume]
    return found


def strata(job: EventDirectionJob, found: Sequence[Item]) -> list[Stratum]:
    """For each prompt and each label that is sampled, the classes drawn; a label without classes has an empty stratum."""
    drawn = []
    for prompt_id in dict.fromkeys(item.prompt_id for item in found):
        for label in job.strata:
            eligible = sorted(one for item in found if (item.prompt_id, item.label) == (prompt_id, label) for one in item.classes)
            drawn.append(Stratum(prompt_id, label, tuple(eligible), draw(job.sample, prompt_id, label, eligible)))
    return drawn


def draw(sample: Sample, prompt_id: str, label: str, eligible: Sequence[int]) -> tuple[int, ...]:
    """The `per_label` classes whose SHA-256 of "seed/prompt ID/label/class" is smallest, ascending; all where there are fewer.

    No generator's state is involved, so a stratum's draw depends on nothing but itself.
    """

    def place(structural_class: int) -> bytes:
        return hashlib.sha256(f"{sample.seed}/{prompt_id}/{label}/{structural_class}".encode()).digest()

    return tuple(sorted(sorted(eligible, key=place)[: sample.per_label]))

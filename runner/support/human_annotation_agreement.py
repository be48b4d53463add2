"""human_annotation_agreement.tsv: how far the two annotators agree (study 3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.annotation.files import Annotation, agreement
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    annotation = Annotation.of(run)
    labelled = annotation.labelled()
    if labelled is None:
        return
    found = agreement(annotation.labels, labelled)
    yield {
        "items": found.items,
        "agreed": found.agreed,
        "without_consensus": found.items - found.agreed,
        "kappa": None if found.kappa is None else float(found.kappa),
    }


HUMAN_ANNOTATION_AGREEMENT = SupportTable(
    name="human_annotation_agreement",
    protocol="event_direction",
    section="3.3",
    doc="One row, or none before a filled form was taken in. The run keeps no annotator's identity.",
    columns=(
        SupportColumn("items", "unique texts labelled by both"),
        SupportColumn("agreed", "of these, with equal labels"),
        SupportColumn("without_consensus", "of these, with different labels, which wait for adjudication"),
        SupportColumn("kappa", "Cohen's kappa; empty where it is undefined: both gave one and the same label to every item"),
    ),
    rows=rows,
)

"""human_annotation_confusion.tsv: items by the labels of both annotators (study 3.3)."""

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
    for (one, other), count in agreement(annotation.labels, labelled).confusion.items():
        yield {"annotator_1": one, "annotator_2": other, "items": count}


HUMAN_ANNOTATION_CONFUSION = SupportTable(
    name="human_annotation_confusion",
    protocol="event_direction",
    section="3.3",
    doc="A row a pair of labels, those that never occur included; no row before a filled form was taken in.",
    columns=(
        SupportColumn("annotator_1", "label of the first annotator"),
        SupportColumn("annotator_2", "label of the second annotator"),
        SupportColumn("items", "unique texts with these labels"),
    ),
    rows=rows,
)

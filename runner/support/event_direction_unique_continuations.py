"""event_direction_unique_continuations.tsv: the annotation items, with every label they have (study 2.4.4, 3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.annotation.files import Annotation
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    annotation = Annotation.of(run)
    given = {one.item: one for one in annotation.labelled() or ()}
    ids = {item: line for line, item in annotation.by_item().items()}
    for item in annotation.items:
        labelled = given.get(item)
        yield {
            "prompt_id": item.prompt_id,
            "item": ids[item],
            "text": item.text,
            "classes": len(item.classes),
            "first_class": item.classes[0],
            "provisional_label": item.label,
            "annotator_1": labelled.labels[0] if labelled else None,
            "annotator_2": labelled.labels[1] if labelled else None,
            "consensus": labelled.consensus if labelled else None,
        }


EVENT_DIRECTION_UNIQUE_CONTINUATIONS = SupportTable(
    name="event_direction_unique_continuations",
    protocol="event_direction",
    section="2.4.4, 3.3",
    doc="A row an exact text, the text of most classes first.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("item", "the text's ID in the annotation form"),
        SupportColumn("text", "the generated text, whole"),
        SupportColumn("classes", "classes that say it"),
        SupportColumn("first_class", "the lowest of these"),
        SupportColumn("provisional_label", "its label by the rules"),
        SupportColumn("annotator_1", "its label by the first annotator; empty before a filled form was taken in"),
        SupportColumn("annotator_2", "its label by the second annotator; empty likewise"),
        SupportColumn("consensus", "the label both gave; empty where they disagree"),
    ),
    rows=rows,
)

"""event_direction_counts.tsv: classes by label, as the rules gave it and as people did (study 3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.annotation.files import Annotation
from runner.protocols.event_direction import event_direction, sample
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable
from schemas.rules import UNDECIDED


def rows(run: Run) -> Iterator[Row]:
    annotation = Annotation.of(run)
    labelled = annotation.labelled()
    drawn = {(one.prompt_id, one.label): len(one.drawn) for one in sample(event_direction(run.experiment.job), run.store)}
    for prompt in dict.fromkeys(item.prompt_id for item in annotation.items):
        for label in (*annotation.labels, UNDECIDED):
            provisional = [item for item in annotation.items if (item.prompt_id, item.label) == (prompt, label)]
            decided = [
                one.item for one in labelled or () if one.item.prompt_id == prompt and (one.consensus or UNDECIDED) == label
            ]
            yield {
                "prompt_id": prompt,
                "label": label,
                "provisional_items": len(provisional),
                "provisional_classes": sum(len(item.classes) for item in provisional),
                "consensus_items": None if labelled is None else len(decided),
                "consensus_classes": None if labelled is None else sum(len(item.classes) for item in decided),
                "drawn": drawn.get((prompt, label), 0),
            }


EVENT_DIRECTION_COUNTS = SupportTable(
    name="event_direction_counts",
    protocol="event_direction",
    section="2.4.4, 3.3",
    doc="A row a prompt and label. Labels of unique texts go to the classes by exact text; classes are basin volumes under the "
    "enumeration, not annotation units and no probabilities.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("label", f"a label of the rules, or `{UNDECIDED}`: the annotators disagree"),
        SupportColumn("provisional_items", "unique texts that the rules label so"),
        SupportColumn("provisional_classes", "classes that say one of these"),
        SupportColumn("consensus_items", "unique texts that both annotators label so; empty before a filled form was taken in"),
        SupportColumn("consensus_classes", "classes that say one of these; empty likewise"),
        SupportColumn("drawn", "classes of the provisional label that the sample holds"),
    ),
    rows=rows,
)

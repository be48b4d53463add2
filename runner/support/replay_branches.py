"""replay_branches.tsv: the sampled branches and what they say at full length (study 2.4.4, B.1)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.annotation.files import Annotation
from runner.protocols.event_direction import replays
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    annotation = Annotation.of(run)
    items = {(item.prompt_id, one): item for item in annotation.items for one in item.classes}
    consensus = {one.item: one.consensus for one in annotation.labelled() or ()}
    for row in replays(run.store):
        if row["run"] == 1:
            item = items[row["prompt_id"], row["structural_class"]]
            yield {
                "prompt_id": row["prompt_id"],
                "structural_class": row["structural_class"],
                "branch_order": row["branch_order"],
                "provisional_label": item.label,
                "consensus": consensus.get(item),
                "tokens": len(row["token_ids"]),
                "token_sha256": row["token_sha256"],
                "prefix": item.text,
                "text": row["text"],
            }


REPLAY_BRANCHES = SupportTable(
    name="replay_branches",
    protocol="event_direction",
    section="2.4.4, B.1",
    doc="A row a sampled class, as its first replay said it; replay_pairs says that the second said the same.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("structural_class", "class of scheme B"),
        SupportColumn("branch_order", "order injected, the class's lower lexicographic rank"),
        SupportColumn("provisional_label", "label of its first, short text by the rules, from whose stratum it was drawn"),
        SupportColumn("consensus", "label of that text by both annotators; empty without a filled form, or where they disagree"),
        SupportColumn("tokens", "generated tokens"),
        SupportColumn("token_sha256", "SHA-256 of the comma-joined token IDs"),
        SupportColumn("prefix", "the short text"),
        SupportColumn("text", "the generated text, whole"),
    ),
    rows=rows,
)

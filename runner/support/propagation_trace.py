"""propagation_trace.tsv: the representative trace, stage by stage (study 3.2.1)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.protocols.propagation import STAGE, trace_lines
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable
from schemas.tables import PROPAGATION_TRACES


def rows(run: Run) -> Iterator[Row]:
    for row in run.store.table(STAGE, PROPAGATION_TRACES.name).to_pylist():
        for line in trace_lines(row):
            yield {"prompt_id": row["prompt_id"], "scheme": row["scheme"], "request_seed": row["request_seed"], **line}


PROPAGATION_TRACE = SupportTable(
    name="propagation_trace",
    protocol="propagation",
    section="3.2.1",
    doc="One persistent condition from a MoE output at the last prompt position to the text.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme of the candidate"),
        SupportColumn("request_seed", "request seed of its schedule"),
        SupportColumn("stage", "what is compared, in the order of execution"),
        SupportColumn("native", "native: first 16 digits of a digest, experts and margin, token, or text"),
        SupportColumn("candidate", "the same of the candidate"),
        SupportColumn("difference", "what differs"),
    ),
    rows=rows,
)

"""breadth_summary.tsv: the stage table of study B.3, whole and by group."""

from __future__ import annotations

from collections.abc import Iterator

from runner.protocols.breadth import separations
from runner.protocols.breadth_accounting import account
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    prompts = run.experiment.prompts
    groups = {("all", "all"): {one.prompt_id for one in prompts}}
    for column in ("language", "kind"):
        for prompt in prompts:
            groups.setdefault((column, str(getattr(prompt, column))), set()).add(prompt.prompt_id)
    found = separations(run.experiment, run.store)
    separated: frozenset[str] = frozenset()
    for one in account(prompts, found).horizons:
        differing = [row["prompt_id"] for row in found[one.horizon] if row["separated"]]
        for (grouping, group), members in groups.items():
            yield {
                "horizon": one.horizon,
                "grouping": grouping,
                "group": group,
                "prompts": len(members),
                "at_risk": len(one.at_risk & members),
                "new": len(one.new & members),
                "cumulative": len(one.separated & members),
                "differing_rows": sum(prompt in members for prompt in differing),
                "repeated": sum(prompt in members & separated for prompt in differing),
            }
        separated = one.separated


BREADTH_SUMMARY = SupportTable(
    name="breadth_summary",
    protocol="breadth",
    section="3.5, B.3",
    doc="Prompts whose branch separated from native, by horizon. Rows of one grouping add up to the row `all`.",
    columns=(
        SupportColumn("horizon", "generated tokens compared"),
        SupportColumn("grouping", "`all`, `language` or `kind`"),
        SupportColumn("group", "the language or kind, or `all`"),
        SupportColumn("prompts", "prompts of the cohort in the group"),
        SupportColumn("at_risk", "of these, not separated at any earlier horizon"),
        SupportColumn("new", "separated here first"),
        SupportColumn("cumulative", "separated here or earlier"),
        SupportColumn("differing_rows", "rows of this horizon that show a separation"),
        SupportColumn("repeated", "of these, rows of prompts that had separated before, which are no new events"),
    ),
    rows=rows,
)

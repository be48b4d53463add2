"""c_intermediate_summary.tsv: intermediate values of a scheme, by default C, against native (study B.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from runner.protocols.intermediates import KINDS, STAGE
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable
from schemas.tables import INTERMEDIATE_CHECKS


def rows(run: Run) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in run.store.table(STAGE, INTERMEDIATE_CHECKS.name).to_pylist():
        groups[row["prompt_id"], row["scheme"]].append(row)
    for (prompt, scheme), checks in groups.items():
        yield {
            "prompt_id": prompt,
            "scheme": scheme,
            "schedules": len(checks),
            "missing_records": sum(row["records_missing"] for row in checks),
            **{f"{kind}_max_linf": max(row[f"{kind}_linf"] for row in checks) for kind in KINDS},
            "bitwise_equal_schedules": sum(row["bitwise_equal"] for row in checks),
            "all_bitwise_equal": all(row["bitwise_equal"] for row in checks),
        }


C_INTERMEDIATE_SUMMARY = SupportTable(
    name="c_intermediate_summary",
    protocol="intermediates",
    section="3.6, B.5",
    doc="Captured values of all prompt positions and layers under random schedules, against native.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme of the schedules"),
        SupportColumn("schedules", "request seeds"),
        SupportColumn("missing_records", "vectors that were not captured, of all schedules"),
        SupportColumn("moe_max_linf", "largest absolute difference of a MoE output from native"),
        SupportColumn("post_mhc_max_linf", "the same of a post-mHC state"),
        SupportColumn("router_max_linf", "the same of a next-router score"),
        SupportColumn("logits_max_linf", "the same of a logit"),
        SupportColumn("bitwise_equal_schedules", "schedules all of whose captured values have the native bits"),
        SupportColumn("all_bitwise_equal", "these are all"),
    ),
    rows=rows,
)

"""basin_counts.tsv: how many different things the orders of one reduction gave (study 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from runner.protocols.sweep import found_orders
from runner.protocols.sweep_basins import SweepCounts
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    for (prompt, scheme), orders in found_orders(run.store).items():
        yield {"prompt_id": prompt, "scheme": scheme} | asdict(SweepCounts.of(orders))


BASIN_COUNTS = SupportTable(
    name="basin_counts",
    protocol="sweep",
    section="3.2",
    doc="What the orders of one frozen aggregation gave, counted by their bits.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme of the changed aggregation"),
        SupportColumn("raw_orders", "orders enumerated"),
        SupportColumn("branches", "orders, for scheme B structural classes of two orders"),
        SupportColumn("distinct_moe_outputs", "bitwise different MoE outputs"),
        SupportColumn("distinct_post_mhc", "bitwise different post-mHC states"),
        SupportColumn("differing_from_native", "branches whose post-mHC state differs from the native one"),
        SupportColumn("differing_route", "branches whose decode steps select another set of experts than native anywhere"),
        SupportColumn("distinct_token_sequences", "different sequences of generated token IDs"),
        SupportColumn("distinct_texts", "different generated texts"),
    ),
    rows=rows,
)

"""basin_rank_frequency.tsv: basins of one continuation by volume (study 3.2, Figure 2a)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.protocols.sweep import found_orders
from runner.protocols.sweep_basins import basins, branches_of
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable


def rows(run: Run) -> Iterator[Row]:
    for (prompt, scheme), orders in found_orders(run.store).items():
        total = branches_of(orders)
        for rank, basin in enumerate(basins(orders), start=1):
            yield {
                "prompt_id": prompt,
                "scheme": scheme,
                "rank": rank,
                "branches": basin.branches,
                "of_branches": total,
                "raw_orders": basin.raw_orders,
                "first_order": basin.first_order,
                "native": basin.native,
                "token_sha256": basin.token_sha256,
                "text": basin.text,
            }


BASIN_RANK_FREQUENCY = SupportTable(
    name="basin_rank_frequency",
    protocol="sweep",
    section="3.2, Figure 2a",
    doc="The branches with one continuation, by volume: a share of branches, no probability of anything in deployment.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme of the changed aggregation"),
        SupportColumn("rank", "place by volume, from 1; of equal volumes the basin with the lowest order comes first"),
        SupportColumn("branches", "volume: branches (orders, for scheme B classes) with this continuation"),
        SupportColumn("of_branches", "all branches of the prompt and scheme"),
        SupportColumn("raw_orders", "orders with this continuation"),
        SupportColumn("first_order", "the lowest of these"),
        SupportColumn("native", "the continuation is the native one"),
        SupportColumn("token_sha256", "SHA-256 of the comma-joined token IDs, which decide what one continuation is"),
        SupportColumn("text", "generated text"),
    ),
    rows=rows,
)

"""persistent_ablation.tsv: random schedules against native and against the scheme's own identity order (study 3.6, B.4)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.protocols.persistent import STAGES
from runner.protocols.persistent_accounting import account
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable
from schemas.tables import PERSISTENT_TRAJECTORIES


def rows(run: Run) -> Iterator[Row]:
    references, schedules = (run.store.table(stage, PERSISTENT_TRAJECTORIES.name).to_pylist() for stage in STAGES)
    for one in account(references, schedules):
        yield {
            "prompt_id": one.prompt_id,
            "scheme": one.scheme,
            "trajectories": one.trajectories,
            "native_route_divergence": one.native_route,
            "native_token_divergence": one.native_tokens,
            "canonical_route_divergence": one.canonical_route,
            "canonical_token_divergence": one.canonical_tokens,
            "unique_continuations": one.continuations,
            "canonical_native_route_differs": one.shift_route,
            "canonical_native_tokens_differ": one.shift_tokens,
        }


PERSISTENT_ABLATION = SupportTable(
    name="persistent_ablation",
    protocol="persistent",
    section="3.6, B.4",
    doc="Trajectories under random schedules, the same for every scheme. Rows of a scheme add up to the two-axis table.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme at every MoE layer"),
        SupportColumn("trajectories", "random schedules"),
        SupportColumn("native_route_divergence", "of these, route trajectories that differ from native"),
        SupportColumn("native_token_divergence", "sequences of token IDs that differ from native"),
        SupportColumn("canonical_route_divergence", "route trajectories that differ from the scheme's identity order"),
        SupportColumn("canonical_token_divergence", "sequences of token IDs that differ from the scheme's identity order"),
        SupportColumn("unique_continuations", "different sequences of token IDs"),
        SupportColumn("canonical_native_route_differs", "the identity order's route trajectory differs from native"),
        SupportColumn("canonical_native_tokens_differ", "the identity order's token IDs differ from native"),
    ),
    rows=rows,
)

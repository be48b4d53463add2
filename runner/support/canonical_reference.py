"""canonical_reference.tsv: the identity order of each scheme against native (study 2.4.6, B.4)."""

from __future__ import annotations

from collections.abc import Iterator

from runner.protocols.canonical import STAGE
from runner.protocols.trajectory import first_difference
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable
from schemas.tables import CANONICAL_TRAJECTORIES


def rows(run: Run) -> Iterator[Row]:
    trajectories = run.store.table(STAGE, CANONICAL_TRAJECTORIES.name).to_pylist()
    native = {row["prompt_id"]: row for row in trajectories if row["schedule"] == "native"}
    for row in trajectories:
        if row["schedule"] == "identity":
            reference = native[row["prompt_id"]]
            yield {
                "prompt_id": row["prompt_id"],
                "scheme": row["scheme"],
                "generated_tokens": len(row["token_ids"]),
                "native_route_differs": row["routes_sha256"] != reference["routes_sha256"],
                "native_tokens_differ": row["token_ids"] != reference["token_ids"],
                "first_difference": first_difference(reference["token_ids"], row["token_ids"]),
                "native_state_differs": row["state_sha256"] != reference["state_sha256"],
                "token_sha256": row["token_sha256"],
                "routes_sha256": row["routes_sha256"],
                "text": row["text"],
            }


CANONICAL_REFERENCE = SupportTable(
    name="canonical_reference",
    protocol="canonical",
    section="2.4.6, B.4",
    doc="Each scheme's identity-order trajectory against native: what changing the scheme does, without a change of order.",
    columns=(
        SupportColumn("prompt_id", "the prompt's ID in the catalog"),
        SupportColumn("scheme", "scheme at every MoE layer"),
        SupportColumn("generated_tokens", "tokens generated"),
        SupportColumn("native_route_differs", "a set of experts differs from native at some position and layer"),
        SupportColumn("native_tokens_differ", "the generated token IDs differ from native"),
        SupportColumn("first_difference", "ordinal of the first that differs"),
        SupportColumn("native_state_differs", "the persistent state at the end differs from native"),
        SupportColumn("token_sha256", "SHA-256 of the comma-joined token IDs"),
        SupportColumn("routes_sha256", "digest of the route trajectory"),
        SupportColumn("text", "generated text"),
    ),
    rows=rows,
)

"""Tables of the sweep protocol (study 2.4.1, 2.6, 3.2)."""

from __future__ import annotations

from schemas.table import BOOL, FLOAT, INT, TEXT, Column, TableSpec, list_of

SWEEP_FORKS = TableSpec(
    name="sweep_forks",
    version=1,
    key=("prompt_id", "scheme", "first_branch"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("scheme", TEXT, "scheme of the unit's branches"),
        Column("first_branch", INT, "first branch of the unit: an order, for scheme B a class"),
        Column("branches", INT, "branches of the unit"),
        Column("executed", INT, "bitwise different post-mHC states among them that were continued; equal ones continue as one"),
        # The fork and the native reference as this unit found them: the same for all units of a prompt.
        Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
        Column("fork_layer", INT, "layer whose aggregation is changed"),
        Column("fork_position", INT, "position of the token that the forked step consumes"),
        Column("fork_token", INT, "ID of that token: the first generated one"),
        Column("fork_experts", list_of(INT), "experts selected at the fork, in router order, which orders permute"),
        Column(
            "fork_router_margin",
            FLOAT,
            "score gap between the last selected expert and the first rejected at the fork, inf in a hash layer",
        ),
        Column("native_moe_output_sha256", TEXT, "MoE output at the fork, shared expert added, native"),
        Column("native_post_mhc_sha256", TEXT, "post-mHC streams after the fork layer at the fork position, native"),
        Column("native_token_ids", list_of(INT), "generated token IDs, native"),
        Column("native_token_sha256", TEXT, "SHA-256 of the comma-joined native token IDs"),
        Column("native_text", TEXT, "generated text, native"),
        Column("native_routes_sha256", TEXT, "expert sets of all decode steps and layers, native"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

SWEEP_ORDERS = TableSpec(
    name="sweep_orders",
    version=1,
    key=("prompt_id", "scheme", "order"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("scheme", TEXT, "scheme of the changed aggregation"),
        Column("order", INT, "lexicographic rank of the permutation of the router-ordered terms"),
        Column(
            "structural_class",
            INT,
            "class of the order under scheme B, shared by two orders that differ in their first two terms only; null for others",
            nullable=True,
        ),
        Column("linf_moe_output", FLOAT, "largest absolute difference of the MoE output from the native one"),
        Column("linf_post_mhc", FLOAT, "largest absolute difference of the post-mHC state from the native one"),
        Column("moe_output_sha256", TEXT, "MoE output, shared expert added, as FP32 values"),
        Column("post_mhc_sha256", TEXT, "post-mHC streams, as FP32 values"),
        Column("equals_native", BOOL, "the post-mHC state has the native bits"),
        Column("token_ids", list_of(INT), "generated token IDs"),
        Column("token_sha256", TEXT, "SHA-256 of the comma-joined token IDs"),
        Column("text", TEXT, "generated text"),
        Column(
            "first_difference", INT, "ordinal of the first token that differs from native, null where none does", nullable=True
        ),
        Column("routes_compared", INT, "route selections compared with native: decode steps times layers"),
        Column("routes_differing", INT, "of these, selections whose sets of experts differ"),
        Column("routes_sha256", TEXT, "expert sets of all decode steps and layers"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

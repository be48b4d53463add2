"""Tables of the breadth protocol (study 2.4.7, 3.5, B.3)."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import FLOAT, INT, TEXT, Column, TableSpec, list_of
from schemas.tables.columns import PROMPT

BREADTH_UNITS = TableSpec(
    name="breadth_units",
    version=1,
    key=("prompt_id", "horizon"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("horizon", INT, "generated tokens compared"),
        *PROMPT,
        # The fork: one (position, layer), the same captured state for every class.
        Column("fork_layer", INT, "layer whose aggregation is changed"),
        Column("fork_position", INT, "position of the token that the forked step consumes"),
        Column("fork_token", INT, "ID of that token: the first generated one"),
        Column("fork_experts", list_of(INT), "experts selected at the fork, in router order, which orders permute"),
        Column(
            "fork_router_margin",
            FLOAT,
            "score gap between the last selected expert and the first rejected at the fork, inf in a hash layer",
        ),
        Column("structural_classes", INT, "classes enumerated"),
        Column("distinct_moe_outputs", INT, "bitwise different MoE outputs among the classes"),
        Column("distinct_post_mhc", INT, "bitwise different post-mHC states among the classes"),
        Column("differing_from_native", INT, "classes whose post-mHC state differs from the native one"),
        Column("selected_class", INT, "class injected: the farthest from native, the lowest of equals"),
        Column("selected_order", INT, "order injected, the class's lower lexicographic rank"),
        Column("selected_linf", FLOAT, "largest absolute difference of its post-mHC state from the native one"),
        Column("native_post_mhc_sha256", TEXT, "post-mHC streams after the fork layer at the fork position, native"),
        Column("branch_post_mhc_sha256", TEXT, "the same, branch"),
        # What came of it. Ordered token IDs decide; text is stored whole, however many lines.
        Column("native_token_ids", list_of(INT), "generated token IDs, native"),
        Column("branch_token_ids", list_of(INT), "generated token IDs, branch"),
        Column("native_token_sha256", TEXT, "SHA-256 of the comma-joined native token IDs"),
        Column("branch_token_sha256", TEXT, "SHA-256 of the comma-joined branch token IDs"),
        Column("native_text", TEXT, "generated text, native"),
        Column("branch_text", TEXT, "generated text, branch"),
        Column("separated", pa.bool_(), "the ordered token IDs differ"),
        Column("first_difference", INT, "ordinal of the first generated token that differs, null where none does", nullable=True),
        Column("text_differs", pa.bool_(), "the texts differ"),
        Column(
            "native_logit_margins", list_of(FLOAT), "for each generated token, the gap between the two highest logits, native"
        ),
        Column("branch_logit_margins", list_of(FLOAT), "the same, branch"),
        # Where the two executions parted inside, visible or not: routes of every decode step, and the state at the end.
        Column("routes_compared", INT, "route selections compared: decode steps times layers"),
        Column("routes_differing", INT, "of these, selections whose sets of experts differ"),
        Column("first_route_position", INT, "position of the first differing selection, null where none differs", nullable=True),
        Column("first_route_layer", INT, "its layer, null where none differs", nullable=True),
        Column("native_routes_sha256", TEXT, "expert sets of all decode steps and layers, native"),
        Column("branch_routes_sha256", TEXT, "the same, branch"),
        Column("native_router_margin_min", FLOAT, "smallest router margin of all decode steps and layers, native"),
        Column("branch_router_margin_min", FLOAT, "the same, branch"),
        Column(
            "state_position",
            INT,
            "tokens processed when the last generated token was predicted; the states below are of that moment",
        ),
        Column("native_state_sha256", TEXT, "serialised persistent state, native"),
        Column("branch_state_sha256", TEXT, "serialised persistent state, branch"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

BREADTH_CLASSES = TableSpec(
    name="breadth_classes",
    version=1,
    key=("prompt_id", "horizon", "structural_class"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("horizon", INT, "generated tokens of the stage"),
        Column("structural_class", INT, "class of scheme B: two orders that differ only in their first two terms"),
        Column("order_low", INT, "lower lexicographic rank of the two orders"),
        Column("order_high", INT, "higher lexicographic rank of the two orders"),
        Column("linf_moe_output", FLOAT, "largest absolute difference of the MoE output from the native one"),
        Column("linf_post_mhc", FLOAT, "largest absolute difference of the post-mHC state from the native one"),
        Column("moe_output_sha256", TEXT, "MoE output, shared expert added, as FP32 values"),
        Column("post_mhc_sha256", TEXT, "post-mHC streams, as FP32 values"),
        Column("equals_native", pa.bool_(), "the post-mHC state has the native bits"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

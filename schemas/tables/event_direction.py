"""Tables of the event-direction protocol (study 2.4.4, 3.3, 3.4). Labels are no part of them: texts get them afterwards."""

from __future__ import annotations

from schemas.table import FLOAT, INT, TEXT, Column, TableSpec, list_of

EVENT_DIRECTION_FORKS = TableSpec(
    name="event_direction_forks",
    version=1,
    key=("prompt_id", "first_class", "classes"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("first_class", INT, "first class of the unit"),
        Column("classes", INT, "classes of the unit; 0 for the native reference alone"),
        # The fork and the native reference as this unit found them: the same for all units of a prompt.
        Column("prompt_sha256", TEXT, "SHA-256 of the prompt's UTF-8 bytes"),
        Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
        Column("checkpoint_identity", TEXT, "identity of the checkpoint"),
        Column("tokenizer_identity", TEXT, "SHA-256 of tokenizer.json"),
        Column("fork_layer", INT, "layer whose aggregation is changed"),
        Column("fork_position", INT, "position of the token that the forked step consumes"),
        Column("fork_token", INT, "ID of that token: the first generated one"),
        Column("fork_experts", list_of(INT), "experts selected at the fork, in router order, which orders permute"),
        Column("structural_classes", INT, "classes of scheme B there are"),
        Column("native_post_mhc_sha256", TEXT, "post-mHC streams after the fork layer at the fork position, native"),
        Column("native_token_ids", list_of(INT), "generated token IDs, native"),
        Column("native_token_sha256", TEXT, "SHA-256 of the comma-joined native token IDs"),
        Column("native_text", TEXT, "generated text, native"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

EVENT_DIRECTION_CLASSES = TableSpec(
    name="event_direction_classes",
    version=1,
    key=("prompt_id", "structural_class"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("structural_class", INT, "class of scheme B: two orders that differ only in their first two terms"),
        Column("branch_order", INT, "order injected, the class's lower lexicographic rank"),
        Column("linf_post_mhc", FLOAT, "largest absolute difference of the post-mHC state from the native one"),
        Column("post_mhc_sha256", TEXT, "post-mHC streams after the fork layer at the fork position"),
        Column("token_ids", list_of(INT), "generated token IDs"),
        Column("token_sha256", TEXT, "SHA-256 of the comma-joined token IDs"),
        Column("text", TEXT, "generated text"),
        Column(
            "first_difference", INT, "ordinal of the first token that differs from native, null where none does", nullable=True
        ),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

EVENT_DIRECTION_REPLAYS = TableSpec(
    name="event_direction_replays",
    version=1,
    key=("prompt_id", "structural_class", "run"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("structural_class", INT, "class of scheme B"),
        Column("run", INT, "1 or 2: executions of the same branch, each from its own prefill"),
        Column("prompt_sha256", TEXT, "SHA-256 of the prompt's UTF-8 bytes"),
        Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
        Column("checkpoint_identity", TEXT, "identity of the checkpoint"),
        Column("tokenizer_identity", TEXT, "SHA-256 of tokenizer.json"),
        Column("numerics", TEXT, "official or fp32"),
        Column("fork_layer", INT, "layer whose aggregation is changed"),
        Column("fork_position", INT, "position of the token that the forked step consumes"),
        Column("fork_token", INT, "ID of that token: the first generated one"),
        Column("branch_order", INT, "order injected, the class's lower lexicographic rank"),
        Column("post_mhc_sha256", TEXT, "post-mHC streams after the fork layer at the fork position"),
        Column("token_ids", list_of(INT), "generated token IDs"),
        Column("token_sha256", TEXT, "SHA-256 of the comma-joined token IDs"),
        Column("text", TEXT, "generated text"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

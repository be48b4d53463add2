"""Table of the replay protocol (study 3.1)."""

from __future__ import annotations

from schemas.table import FLOAT, INT, TEXT, Column, TableSpec, list_of

REPLAY_PASSES = TableSpec(
    name="replay_passes",
    version=1,
    key=("prompt_id", "execution"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("execution", TEXT, "reference (the prompt in one step) or replay (a fresh state, the prompt in chunks)"),
        Column("chunk", INT, "prompt tokens fed in one step, null where all are", nullable=True),
        Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
        Column("token_ids", list_of(INT), "generated token IDs"),
        Column("token_sha256", TEXT, "SHA-256 of the comma-joined generated token IDs"),
        Column("text", TEXT, "generated text"),
        Column("logit_margins", list_of(FLOAT), "for each generated token, the gap between the two highest logits"),
        Column("logits_sha256", TEXT, "logits that predicted the generated tokens, one row a token, as FP32 values"),
        # The route trajectory: every processed position, prompt included, every layer.
        Column("positions", INT, "tokens processed"),
        Column("layers", INT, "layers of the checkpoint"),
        Column(
            "routes", list_of(INT), "selected experts, ascending in each selection: positions times layers times experts a token"
        ),
        Column("routes_sha256", TEXT, "the same as a digest"),
        Column("router_margin_min", FLOAT, "smallest router margin of all positions and layers"),
        Column("state_sha256", TEXT, "serialised persistent state when the last token was predicted"),
        # Scheme C in native order is the native path written another way (study 3.1).
        Column("c_outputs_compared", INT, "MoE outputs recomputed by scheme C in native order from captured terms"),
        Column("c_outputs_differing", INT, "of these, outputs with other bits than the captured ones"),
        Column("c_moe_max_abs", FLOAT, "largest absolute difference between them"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

"""Tables of the protocols whose schedules hold at every layer (study 2.4.5, 2.4.6, 3.2.1, 3.6, B.4, B.5)."""

from __future__ import annotations

from schemas.table import BOOL, FLOAT, INT, TEXT, Column, TableSpec, list_of


def _trajectories(name: str) -> TableSpec:
    return TableSpec(
        name=name,
        version=1,
        key=("prompt_id", "scheme", "schedule", "request_seed"),
        columns=(
            Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
            Column("scheme", TEXT, "native, P32, C, A or B, at every MoE layer and position"),
            Column("schedule", TEXT, "native (ascending expert id), identity (router order), or random"),
            Column("request_seed", INT, "request seed of a random schedule, null for others", nullable=True),
            Column("orders", list_of(INT), "order of each layer, a lexicographic rank; empty for native"),
            Column("experts_per_token", INT, "terms that an order permutes"),
            Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
            Column("token_ids", list_of(INT), "generated token IDs"),
            Column("token_sha256", TEXT, "SHA-256 of the comma-joined generated token IDs"),
            Column("text", TEXT, "generated text"),
            Column("logit_margins", list_of(FLOAT), "for each generated token, the gap between the two highest logits"),
            Column("routes_compared", INT, "route selections of the trajectory: processed positions times layers"),
            Column("routes_sha256", TEXT, "expert sets of all processed positions, prompt included, and layers"),
            Column("router_margin_min", FLOAT, "smallest router margin of all positions and layers"),
            Column("state_sha256", TEXT, "serialised persistent state when the last token was predicted"),
            Column("unit_key", TEXT, "key of the unit that gave the row"),
        ),
    )


PERSISTENT_TRAJECTORIES = _trajectories("persistent_trajectories")
CANONICAL_TRAJECTORIES = _trajectories("canonical_trajectories")

INTERMEDIATE_CHECKS = TableSpec(
    name="intermediate_checks",
    version=1,
    key=("prompt_id", "scheme", "request_seed"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("scheme", TEXT, "scheme at every MoE layer and position of the prompt"),
        Column("request_seed", INT, "request seed of the schedule"),
        Column("orders", list_of(INT), "order of each layer, a lexicographic rank"),
        Column("experts_per_token", INT, "terms that an order permutes"),
        Column("positions", INT, "prompt tokens processed"),
        Column("layers", INT, "layers of the checkpoint"),
        # A record is one captured vector: of one position and, but for logits, one layer.
        Column("records_expected", INT, "vectors that a complete capture of the four kinds has"),
        Column("records_missing", INT, "of these, vectors that were not captured"),
        Column("moe_differing", INT, "MoE outputs with other bits than native, of positions times layers"),
        Column("moe_linf", FLOAT, "largest absolute difference of a MoE output from native"),
        Column("post_mhc_differing", INT, "post-mHC states with other bits than native, of positions times layers"),
        Column("post_mhc_linf", FLOAT, "largest absolute difference of a post-mHC state from native"),
        Column(
            "router_differing",
            INT,
            "router scores of layers 1 and up with other bits than native, of positions times layers less 1",
        ),
        Column("router_linf", FLOAT, "largest absolute difference of a router score from native"),
        Column("logits_differing", INT, "logits of a prompt position with other bits than native, of positions"),
        Column("logits_linf", FLOAT, "largest absolute difference of a logit from native"),
        Column("bitwise_equal", BOOL, "nothing is missing and nothing differs"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

PROPAGATION_TRACES = TableSpec(
    name="propagation_traces",
    version=1,
    key=("prompt_id", "scheme", "request_seed"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("scheme", TEXT, "scheme of the candidate, at every MoE layer and position"),
        Column("request_seed", INT, "request seed of the schedule"),
        Column("orders", list_of(INT), "order of each layer, a lexicographic rank"),
        Column("experts_per_token", INT, "terms that an order permutes"),
        Column("position", INT, "the last prompt position, at which everything but tokens and texts is captured"),
        Column("output_layer", INT, "layer whose MoE output and post-mHC state are compared"),
        Column("router_layer", INT, "later layer whose router is compared"),
        Column("native_moe_output_sha256", TEXT, "MoE output at the output layer, native"),
        Column("candidate_moe_output_sha256", TEXT, "the same, candidate"),
        Column("moe_linf", FLOAT, "largest absolute difference between them"),
        Column("native_post_mhc_sha256", TEXT, "post-mHC streams after the output layer, native"),
        Column("candidate_post_mhc_sha256", TEXT, "the same, candidate"),
        Column("post_mhc_linf", FLOAT, "largest absolute difference between them"),
        Column("native_experts", list_of(INT), "experts selected at the router layer, ascending, native"),
        Column("candidate_experts", list_of(INT), "the same, candidate"),
        Column("native_router_margin", FLOAT, "score gap between the last selected expert and the first rejected, native"),
        Column("candidate_router_margin", FLOAT, "the same, candidate"),
        Column("router_linf", FLOAT, "largest absolute difference of a router score"),
        Column("native_logits_sha256", TEXT, "logits after the prompt, native"),
        Column("candidate_logits_sha256", TEXT, "the same, candidate"),
        Column("native_logit_margin", FLOAT, "gap between the two highest logits after the prompt, native"),
        Column("candidate_logit_margin", FLOAT, "the same, candidate"),
        Column("logits_linf", FLOAT, "largest absolute difference of a logit"),
        Column("native_token_ids", list_of(INT), "generated token IDs, native"),
        Column("candidate_token_ids", list_of(INT), "generated token IDs, candidate"),
        Column("first_difference", INT, "ordinal of the first generated token that differs, null where none does", nullable=True),
        Column("native_text", TEXT, "generated text, native"),
        Column("candidate_text", TEXT, "generated text, candidate"),
        Column("native_routes_sha256", TEXT, "expert sets of all processed positions and layers, native"),
        Column("candidate_routes_sha256", TEXT, "the same, candidate"),
        Column(
            "first_route_position",
            INT,
            "position of the first differing selection, positions first, null where none differs",
            nullable=True,
        ),
        Column("first_route_layer", INT, "its layer, null where none differs", nullable=True),
        Column("routes_compared", INT, "route selections compared: processed positions times layers"),
        Column("routes_differing", INT, "of these, selections whose sets of experts differ"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

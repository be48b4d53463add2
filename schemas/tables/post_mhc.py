"""Tables of the post-mHC substitution (study 2.4.2, 3.2.2).

Three executions of one prompt: "branch" injects the class's order at the fork, "substituted" follows the native path and adds the
endpoint difference once, "native" is left alone.
"""

from __future__ import annotations

from schemas.table import BOOL, FLOAT, INT, TEXT, Column, TableSpec, list_of
from schemas.tables.columns import BRANCH_CLASS, CONTINUATIONS, PROMPT

POST_MHC_UNITS = TableSpec(
    name="post_mhc_units",
    version=1,
    key=("prompt_id",),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        *PROMPT,
        Column("layers", INT, "layers of the checkpoint"),
        Column("decode_inputs", INT, "generated tokens processed; one more is predicted"),
        Column("fork_layer", INT, "layer whose aggregation the branch changes"),
        Column("fork_position", INT, "position of the token that the forked step consumes"),
        Column("fork_token", INT, "ID of that token: the first generated one"),
        *BRANCH_CLASS,
        # The endpoint.
        Column("endpoint_values", INT, "FP32 values of a post-mHC state"),
        Column("differing_values", INT, "of these, values in which branch and native endpoint differ"),
        Column("delta_linf", FLOAT, "largest absolute component of the endpoint difference"),
        Column("native_endpoint_sha256", TEXT, "post-mHC streams at the fork, native"),
        Column("branch_endpoint_sha256", TEXT, "the same, branch"),
        Column("substituted_endpoint_sha256", TEXT, "the same, native with the difference added"),
        Column("reconstruction_linf", FLOAT, "largest absolute difference of the substituted endpoint from the branch's"),
        # What was compared; the rows are in the other tables.
        Column("prefork_compared", INT, "post-mHC states before the fork compared, branch and native: layers 0 to the fork's"),
        Column("prefork_equal", INT, "of these, equal bit for bit"),
        Column("vectors_compared", INT, "post-mHC states from the endpoint on compared, branch and substituted"),
        Column("vectors_equal", INT, "of these, equal bit for bit"),
        Column("routes_compared", INT, "route selections compared, branch and substituted: decode inputs times layers"),
        Column("routes_equal", INT, "of these, equal, router order included"),
        Column("predictions_compared", INT, "predicted tokens compared, branch and substituted: decode inputs and one"),
        Column("predictions_equal", INT, "of these, equal"),
        *CONTINUATIONS,
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

POST_MHC_PREFORK = TableSpec(
    name="post_mhc_prefork",
    version=1,
    key=("prompt_id", "layer"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("position", INT, "position of the fork"),
        Column("layer", INT, "a layer before the fork"),
        Column("endpoint_values", INT, "FP32 values of the post-mHC state"),
        Column("branch_sha256", TEXT, "post-mHC streams, branch"),
        Column("native_sha256", TEXT, "post-mHC streams, native"),
        Column("linf", FLOAT, "largest absolute difference"),
        Column("equal", BOOL, "equal bit for bit"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

POST_MHC_CHECKPOINTS = TableSpec(
    name="post_mhc_checkpoints",
    version=1,
    key=("prompt_id", "decode_input", "layer"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("decode_input", INT, "ordinal of the generated token that is processed; the fork is in the first"),
        Column("position", INT, "its position"),
        Column("layer", INT, "layer"),
        Column("branch_experts", list_of(INT), "experts selected, in router order, branch"),
        Column("substituted_experts", list_of(INT), "the same, substituted"),
        Column("route_equal", BOOL, "the selections are equal, router order included"),
        # The first decode input's layers before the endpoint are compared with native, in post_mhc_prefork.
        Column("branch_sha256", TEXT, "post-mHC streams, branch; null before the endpoint", nullable=True),
        Column("substituted_sha256", TEXT, "the same, substituted", nullable=True),
        Column("linf", FLOAT, "largest absolute difference; null before the endpoint", nullable=True),
        Column("equal", BOOL, "equal bit for bit; null before the endpoint", nullable=True),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

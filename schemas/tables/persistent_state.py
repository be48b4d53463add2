"""Tables of the persistent-state substitution (study 2.4.3, 3.2.3).

Three executions of one prompt: "branch" injects the class's order at the fork, "native" is left alone, "substituted" follows the
native path through the forked position and then adds the difference of the two persistent states. The boundary is the moment
after the forked position has passed all layers.
"""

from __future__ import annotations

import pyarrow as pa

from schemas.table import BOOL, FLOAT, INT, TEXT, Column, TableSpec, list_of
from schemas.tables.columns import BRANCH_CLASS, CONTINUATIONS, PROMPT

PERSISTENT_STATE_UNITS = TableSpec(
    name="persistent_state_units",
    version=1,
    key=("prompt_id",),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        *PROMPT,
        Column("layers", INT, "layers of the checkpoint"),
        Column("decode_inputs", INT, "generated tokens processed, the forked one included"),
        Column("fork_layer", INT, "layer whose aggregation the branch changes"),
        Column("fork_position", INT, "position of the forked step; the boundary follows it"),
        Column("fork_token", INT, "ID of the token that it consumes: the first generated one"),
        *BRANCH_CLASS,
        # The boundary.
        Column("state_values", pa.int64(), "FP32 values of the canonical persistent state at the boundary"),
        Column("differing_values", pa.int64(), "of these, values in which branch and native differ"),
        Column("differing_layers", INT, "layers with such values"),
        Column("max_abs_difference", pa.float64(), "largest absolute difference of a value, computed in FP64"),
        Column("fp32_layers_rebuilt", INT, "layer records that adding the FP32 difference rebuilds bit for bit"),
        Column("fp64_layers_rebuilt", INT, "layer records that adding the FP64 difference rebuilds bit for bit"),
        Column("native_state_sha256", TEXT, "serialised persistent state at the boundary, native"),
        Column("branch_state_sha256", TEXT, "the same, branch"),
        Column("substituted_state_sha256", TEXT, "the same, native with the FP64 difference added"),
        Column("native_next_token", INT, "token predicted at the boundary by the native execution"),
        Column("branch_next_token", INT, "the same, branch"),
        Column("substituted_next_token", INT, "the same, substituted, before the addition; nothing is forced"),
        # What was compared, branch and substituted; the rows are in persistent_state_checkpoints.
        Column("post_mhc_compared", INT, "post-mHC states compared: decode inputs after the boundary times layers"),
        Column("post_mhc_equal", INT, "of these, equal bit for bit"),
        Column("states_compared", INT, "persistent states of a layer compared, as many"),
        Column("states_equal", INT, "of these, equal bit for bit"),
        Column("routes_compared", INT, "route selections compared, as many"),
        Column("routes_equal", INT, "of these, equal, router order included"),
        Column("predictions_compared", INT, "predicted tokens compared: decode inputs and one"),
        Column("predictions_equal", INT, "of these, equal"),
        *CONTINUATIONS,
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

PERSISTENT_STATE_LAYERS = TableSpec(
    name="persistent_state_layers",
    version=1,
    key=("prompt_id", "layer"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("position", INT, "position after which the states were taken"),
        Column("layer", INT, "layer"),
        Column("state_values", pa.int64(), "FP32 values of the layer's record"),
        Column("differing_values", pa.int64(), "of these, values in which branch and native differ"),
        Column("max_abs_difference", pa.float64(), "largest absolute difference of a value, computed in FP64"),
        Column("native_sha256", TEXT, "the record's values, native"),
        Column("branch_sha256", TEXT, "the record's values, branch"),
        Column("fp32_rebuilt", BOOL, "adding the FP32 difference to the native record gives the branch's bits"),
        Column("fp64_rebuilt", BOOL, "adding the FP64 difference does"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

PERSISTENT_STATE_CHECKPOINTS = TableSpec(
    name="persistent_state_checkpoints",
    version=1,
    key=("prompt_id", "decode_input", "layer"),
    columns=(
        Column("prompt_id", TEXT, "the prompt's ID in the catalog"),
        Column("decode_input", INT, "ordinal of the generated token that is processed; the first after the boundary is 2"),
        Column("position", INT, "its position"),
        Column("layer", INT, "layer"),
        Column("branch_post_mhc_sha256", TEXT, "post-mHC streams, branch"),
        Column("substituted_post_mhc_sha256", TEXT, "the same, substituted"),
        Column("post_mhc_linf", FLOAT, "largest absolute difference of the two"),
        Column("post_mhc_equal", BOOL, "equal bit for bit"),
        Column("branch_state_sha256", TEXT, "values of the layer's persistent state after the token, branch"),
        Column("substituted_state_sha256", TEXT, "the same, substituted"),
        Column("state_differing_values", pa.int64(), "values in which the two differ"),
        Column("state_equal", BOOL, "equal bit for bit"),
        Column("branch_experts", list_of(INT), "experts selected, in router order, branch"),
        Column("substituted_experts", list_of(INT), "the same, substituted"),
        Column("route_equal", BOOL, "the selections are equal, router order included"),
        Column("unit_key", TEXT, "key of the unit that gave the row"),
    ),
)

"""kv_equivalence_summary.tsv: what the persistent-state substitution compared, and that it was equal (study 3.2.3)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import PERSISTENT_STATE_UNITS

KV_EQUIVALENCE_SUMMARY = of_dataset(
    "kv_equivalence_summary",
    "persistent_state",
    "2.4.3, 3.2.3",
    "A row a prompt: the boundary, the difference of both states there, and how many of what was compared were equal. With L "
    "layers and n decode inputs, (n - 1) L post-mHC states, persistent states of a layer and routes are compared.",
    spec=PERSISTENT_STATE_UNITS,
    stage=STAGE,
    without=("prompt_token_ids", "fork_experts"),
)

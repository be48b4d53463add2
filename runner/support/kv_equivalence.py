"""kv_equivalence.tsv: every post-mHC state, persistent state and route after the boundary (study 3.2.3)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import PERSISTENT_STATE_CHECKPOINTS

KV_EQUIVALENCE = of_dataset(
    "kv_equivalence",
    "persistent_state",
    "2.4.3, 3.2.3",
    "A row a prompt, decode input after the boundary and layer, branch and native plus difference.",
    spec=PERSISTENT_STATE_CHECKPOINTS,
    stage=STAGE,
)

"""kv_equivalence_layers.tsv: where the persistent states differ at the boundary, layer by layer (study 3.2.3)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import PERSISTENT_STATE_LAYERS

KV_EQUIVALENCE_LAYERS = of_dataset(
    "kv_equivalence_layers",
    "persistent_state",
    "2.4.3, 3.2.3",
    "A row a prompt and layer. Layers up to the fork's cannot differ: their attention comes before the changed sum.",
    spec=PERSISTENT_STATE_LAYERS,
    stage=STAGE,
)

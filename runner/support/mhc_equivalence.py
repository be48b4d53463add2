"""mhc_equivalence.tsv: every post-mHC state and route of the branch and of native plus difference (study 3.2.2)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import POST_MHC_CHECKPOINTS

MHC_EQUIVALENCE = of_dataset(
    "mhc_equivalence",
    "post_mhc",
    "2.4.2, 3.2.2",
    "A row a prompt, decode input and layer. Routes are compared in all of them, post-mHC states from the endpoint on.",
    spec=POST_MHC_CHECKPOINTS,
    stage=STAGE,
)

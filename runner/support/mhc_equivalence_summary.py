"""mhc_equivalence_summary.tsv: what the post-mHC substitution compared, and that it was equal (study 3.2.2)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import POST_MHC_UNITS

MHC_EQUIVALENCE_SUMMARY = of_dataset(
    "mhc_equivalence_summary",
    "post_mhc",
    "2.4.2, 3.2.2",
    "A row a prompt: the fork, the class, its endpoint, and how many of what was compared were equal. With L layers, "
    "fork layer f and n decode inputs, f states come before the fork, (L - f) + (n - 1) L from the endpoint on, n L routes "
    "and n + 1 predictions.",
    spec=POST_MHC_UNITS,
    stage=STAGE,
    without=("prompt_token_ids", "fork_experts"),
)

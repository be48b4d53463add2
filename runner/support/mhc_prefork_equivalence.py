"""mhc_prefork_equivalence.tsv: layers before the fork, branch and native (study 3.2.2)."""

from __future__ import annotations

from runner.protocols.substitution import STAGE
from runner.support.dataset import of_dataset
from schemas.tables import POST_MHC_PREFORK

MHC_PREFORK_EQUIVALENCE = of_dataset(
    "mhc_prefork_equivalence",
    "post_mhc",
    "2.4.2, 3.2.2",
    "A row a prompt and layer before the fork: both executions enter the fork from the same states.",
    spec=POST_MHC_PREFORK,
    stage=STAGE,
)

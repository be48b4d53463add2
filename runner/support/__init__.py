"""Support tables of the study (A.4), one small module each, written by `runner export`.

To add one: a module with a SupportTable, its line in TABLES, then `python -m runner.support.document` for docs/tables.md.
"""

from __future__ import annotations

from runner.support.basin_counts import BASIN_COUNTS
from runner.support.basin_rank_frequency import BASIN_RANK_FREQUENCY
from runner.support.breadth_summary import BREADTH_SUMMARY
from runner.support.c_intermediate_summary import C_INTERMEDIATE_SUMMARY
from runner.support.canonical_reference import CANONICAL_REFERENCE
from runner.support.event_direction_counts import EVENT_DIRECTION_COUNTS
from runner.support.event_direction_unique_continuations import EVENT_DIRECTION_UNIQUE_CONTINUATIONS
from runner.support.human_annotation_agreement import HUMAN_ANNOTATION_AGREEMENT
from runner.support.human_annotation_confusion import HUMAN_ANNOTATION_CONFUSION
from runner.support.kv_equivalence import KV_EQUIVALENCE
from runner.support.kv_equivalence_layers import KV_EQUIVALENCE_LAYERS
from runner.support.kv_equivalence_summary import KV_EQUIVALENCE_SUMMARY
from runner.support.mhc_equivalence import MHC_EQUIVALENCE
from runner.support.mhc_equivalence_summary import MHC_EQUIVALENCE_SUMMARY
from runner.support.mhc_prefork_equivalence import MHC_PREFORK_EQUIVALENCE
from runner.support.persistent_ablation import PERSISTENT_ABLATION
from runner.support.propagation_trace import PROPAGATION_TRACE
from runner.support.replay_branches import REPLAY_BRANCHES
from runner.support.replay_environment import REPLAY_ENVIRONMENT
from runner.support.replay_pairs import REPLAY_PAIRS
from runner.support.table import SupportTable

TABLES: tuple[SupportTable, ...] = (
    BASIN_COUNTS,
    BASIN_RANK_FREQUENCY,
    BREADTH_SUMMARY,
    PERSISTENT_ABLATION,
    CANONICAL_REFERENCE,
    C_INTERMEDIATE_SUMMARY,
    PROPAGATION_TRACE,
    MHC_EQUIVALENCE_SUMMARY,
    MHC_PREFORK_EQUIVALENCE,
    MHC_EQUIVALENCE,
    KV_EQUIVALENCE_SUMMARY,
    KV_EQUIVALENCE_LAYERS,
    KV_EQUIVALENCE,
    EVENT_DIRECTION_COUNTS,
    EVENT_DIRECTION_UNIQUE_CONTINUATIONS,
    HUMAN_ANNOTATION_AGREEMENT,
    HUMAN_ANNOTATION_CONFUSION,
    REPLAY_BRANCHES,
    REPLAY_PAIRS,
    REPLAY_ENVIRONMENT,
)
"""A line a table."""


def tables_of(protocol: str) -> list[SupportTable]:
    """The tables that a run of this protocol has."""
    return [table for table in TABLES if table.protocol in ("", protocol)]


__all__ = ["TABLES", "SupportTable", "tables_of"]

"""The tables that runs write, one small module a protocol. Any change, a word of documentation included, is a new version with a
new golden file.

Token ordinals count from 1 (the first generated token is ordinal 1), positions and layers from 0, as the study counts them.
Digests are hex SHA-256 as schemas.digest defines them. "native" is the unmodified reference path, "branch" the injected order's.

To add a protocol's tables: a module here and its line in SPECS, then tests/schemas/golden/make_golden.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.table import TableSpec
from schemas.tables.breadth import BREADTH_CLASSES, BREADTH_UNITS
from schemas.tables.event_direction import EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_FORKS, EVENT_DIRECTION_REPLAYS
from schemas.tables.persistent import (
    CANONICAL_TRAJECTORIES,
    INTERMEDIATE_CHECKS,
    PERSISTENT_TRAJECTORIES,
    PROPAGATION_TRACES,
)
from schemas.tables.persistent_state import PERSISTENT_STATE_CHECKPOINTS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_UNITS
from schemas.tables.post_mhc import POST_MHC_CHECKPOINTS, POST_MHC_PREFORK, POST_MHC_UNITS
from schemas.tables.replay import REPLAY_PASSES
from schemas.tables.sweep import SWEEP_FORKS, SWEEP_ORDERS

SPECS: tuple[TableSpec, ...] = (
    REPLAY_PASSES,
    *(SWEEP_FORKS, SWEEP_ORDERS),
    *(BREADTH_UNITS, BREADTH_CLASSES),
    PERSISTENT_TRAJECTORIES,
    CANONICAL_TRAJECTORIES,
    INTERMEDIATE_CHECKS,
    PROPAGATION_TRACES,
    *(POST_MHC_UNITS, POST_MHC_PREFORK, POST_MHC_CHECKPOINTS),
    *(PERSISTENT_STATE_UNITS, PERSISTENT_STATE_LAYERS, PERSISTENT_STATE_CHECKPOINTS),
    *(EVENT_DIRECTION_FORKS, EVENT_DIRECTION_CLASSES, EVENT_DIRECTION_REPLAYS),
)  # fmt: skip
"""A line a protocol."""

TABLES: Mapping[str, TableSpec] = {spec.name: spec for spec in SPECS}
"""Every table, by name."""

__all__ = [
    "BREADTH_CLASSES",
    "BREADTH_UNITS",
    "CANONICAL_TRAJECTORIES",
    "EVENT_DIRECTION_CLASSES",
    "EVENT_DIRECTION_FORKS",
    "EVENT_DIRECTION_REPLAYS",
    "INTERMEDIATE_CHECKS",
    "PERSISTENT_STATE_CHECKPOINTS",
    "PERSISTENT_STATE_LAYERS",
    "PERSISTENT_STATE_UNITS",
    "PERSISTENT_TRAJECTORIES",
    "POST_MHC_CHECKPOINTS",
    "POST_MHC_PREFORK",
    "POST_MHC_UNITS",
    "PROPAGATION_TRACES",
    "REPLAY_PASSES",
    "SPECS",
    "SWEEP_FORKS",
    "SWEEP_ORDERS",
    "TABLES",
]

"""The study's experiments, one small module each; a module has the names of `runner.protocol.ExperimentProtocol`."""

from __future__ import annotations

from collections.abc import Mapping

from runner.protocol import ExperimentProtocol
from runner.protocols import (
    breadth,
    canonical,
    event_direction,
    intermediates,
    persistent,
    persistent_state,
    post_mhc,
    propagation,
    replay,
    sweep,
)

MODULES: tuple[ExperimentProtocol, ...] = (
    replay,
    sweep,
    breadth,
    persistent,
    canonical,
    intermediates,
    propagation,
    post_mhc,
    persistent_state,
    event_direction,
)  # fmt: skip
"""A line a protocol."""

PROTOCOLS: Mapping[str, ExperimentProtocol] = {module.name: module for module in MODULES}
"""Protocol name, as jobs name it, -> protocol."""

__all__ = ["MODULES", "PROTOCOLS"]

"""Job models: what a job file says, one small module a protocol; `common` has what they share.

A field's `description` is the text of what is allowed; it stands in the JSON Schema and in the error line. Everything is
strict: no unknown key, no text for a number, no truth value for an integer.

To add a protocol: a module here and its line in MODELS.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.job.breadth import BreadthJob, Fork
from schemas.job.common import LANGUAGE, SLUG, Composition, Execution, ForkPoint, Job, Kind, Model
from schemas.job.event_direction import EventDirectionJob
from schemas.job.persistent import CanonicalJob, IntermediatesJob, PersistentJob, PropagationJob
from schemas.job.replay import ReplayJob
from schemas.job.substitution import BranchFork, PersistentStateJob, PostMhcJob
from schemas.job.sweep import SweepJob

MODELS: tuple[type[Job], ...] = (
    BreadthJob,
    ReplayJob,
    SweepJob,
    PersistentJob,
    CanonicalJob,
    IntermediatesJob,
    PropagationJob,
    PostMhcJob,
    PersistentStateJob,
    EventDirectionJob,
)  # fmt: skip
"""A line a protocol; the order is the one in which error lines and the JSON Schema name them."""

PROTOCOLS: Mapping[str, type[Job]] = {model.protocol_name(): model for model in MODELS}
"""Protocol name -> model of its job."""

__all__ = [
    "LANGUAGE",
    "MODELS",
    "PROTOCOLS",
    "SLUG",
    "BranchFork",
    "BreadthJob",
    "CanonicalJob",
    "Composition",
    "EventDirectionJob",
    "Execution",
    "Fork",
    "ForkPoint",
    "IntermediatesJob",
    "Job",
    "Kind",
    "Model",
    "PersistentJob",
    "PersistentStateJob",
    "PostMhcJob",
    "PropagationJob",
    "ReplayJob",
    "SweepJob",
]

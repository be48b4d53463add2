"""A conformance finding as the run keeps it: one JSON file under findings/, after which the run can never be trusted again.

A unit's second, different result is kept beside it as the file that it is (runner.commit).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Literal

from runner.store import RunStore


@dataclass(frozen=True)
class Finding:
    """What contradicts what: found by a worker while it executed `units`, or by the protocol's check of a stage's rows.

    message: one line. detail: a traceback, or every violation, a line each.
    """

    stage: str
    source: Literal["worker", "check"]
    message: str
    detail: str
    worker: str = ""
    units: Sequence[str] = ()


def keep_finding(store: RunStore, finding: Finding) -> PurePath:
    """Write a finding down, durably; returns where. Of each stage and source the last one is kept: a run ends with its first."""
    path = store.paths.finding_record(finding.stage, finding.source)
    store.require_held()
    store.storage.replace(path, (json.dumps(asdict(finding), ensure_ascii=False, indent=1) + "\n").encode())
    return path


def told(store: RunStore, path: PurePath) -> str:
    """What a file under findings/ says, in one line."""
    if path.suffix != ".json":
        return "a unit gave other bytes when it was executed again"
    try:
        return str(json.loads(store.storage.read(path))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return "a finding that cannot be read any more"

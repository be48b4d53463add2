"""replay_environment.tsv: where and on what a run was executed, as its workers reported it (study 3.4, A.2)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from runner.events import read_events
from runner.run import Run
from runner.support.table import Row, SupportColumn, SupportTable

PASSED_OVER = frozenset({"time", "event", "worker", "pid"})
"""Fields of a worker's report that say which worker it was, not what it ran on."""


def rows(run: Run) -> Iterator[Row]:
    yield from _said(run.record.job, "job", 1)
    yield from _said(run.record.versions, "driver", 1)
    yield {"property": "catalog.digest", "value": run.record.catalog_digest, "workers": 1}
    counts = Counter(
        (name, value)
        for event in read_events(run.store.storage, run.paths.events)
        if event["event"] == "joined"
        for name, value in _flat({name: value for name, value in event.items() if name not in PASSED_OVER}, "worker")
    )
    for (name, value), workers in sorted(counts.items()):
        yield {"property": name, "value": value, "workers": workers}


def _said(value: Any, prefix: str, workers: int) -> Iterator[Row]:
    for name, text in _flat(value, prefix):
        yield {"property": name, "value": text, "workers": workers}


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{prefix}.{name}")
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


REPLAY_ENVIRONMENT = SupportTable(
    name="replay_environment",
    protocol="",
    section="3.4, A.2",
    doc="What the run was and what executed it. Workers are counted as they joined: one that was replaced counts, too.",
    columns=(
        SupportColumn(
            "property",
            "`job.*` as the run was asked for, `driver.*` what wrote its record, `catalog.digest`, "
            "`worker.*` as each worker reported itself",
        ),
        SupportColumn("value", "its value; numbers, truth values and lists as JSON"),
        SupportColumn("workers", "workers that reported this value; 1 for what is said of the run"),
    ),
    rows=rows,
)

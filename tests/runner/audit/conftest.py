"""Every protocol of the study once, small, on the random checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from random_runs import RandomRuns

    from runner.run import Run

JOBS = {
    "replay": {"horizon": 4},
    "sweep": {"fork": {"layer": 3}, "horizon": 4, "block": 7},
    "persistent": {"request_seeds": 5, "horizon": 4, "block": 2},
    "canonical": {"horizon": 4},
    "intermediates": {"request_seeds": 5, "block": 2},
    "propagation": {"horizon": 4},
    "post_mhc": {"fork": {"layer": 3}, "decode_inputs": 4},
    "persistent_state": {"fork": {"layer": 3}, "decode_inputs": 4},
    "event_direction": {
        "fork": {"layer": 3},
        "horizon": 4,
        "replay_horizon": 6,
        "rules": {"schema_version": 1, "rules": [{"label": "hiring", "words": ["a", "e"]}]},
        "sample": {"per_label": 3},
    },
    "breadth": {"fork": {"layer": 3}, "horizons": [3, 6]},
}


@pytest.fixture(scope="session")
def study_runs(random_runs: RandomRuns) -> dict[str, Run]:
    """Protocol -> its run."""
    return {name: random_runs.run(f"audited_{name}", {"protocol": name} | job) for name, job in JOBS.items()}

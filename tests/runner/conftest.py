"""Shared by the runner's tests: small runs of the protocols on a random checkpoint, each carried out once a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from random_runs import RandomRuns

    from runner.run import Run


@pytest.fixture(scope="session")
def random_runs(tmp_path_factory: pytest.TempPathFactory) -> RandomRuns:
    """The random checkpoint, and a folder for runs on it."""
    from random_runs import RandomRuns, write_checkpoint  # here, as tests of the store do without the extension

    return RandomRuns(write_checkpoint(tmp_path_factory.mktemp("random")), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def post_mhc_run(random_runs: RandomRuns) -> Run:
    return random_runs.run("post_mhc", {"protocol": "post_mhc", "fork": {"layer": 3}, "decode_inputs": 4})


@pytest.fixture(scope="session")
def persistent_state_run(random_runs: RandomRuns) -> Run:
    return random_runs.run("persistent_state", {"protocol": "persistent_state", "fork": {"layer": 3}, "decode_inputs": 4})


@pytest.fixture(scope="session")
def event_direction_run(random_runs: RandomRuns) -> Run:
    """Two prompts of 12 classes each; one of them says two texts, which the rules tell apart."""
    return random_runs.run("event_direction", random_runs.event_direction())

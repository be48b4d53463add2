"""A run stopped in each of its stages goes on with other numbers of actors, on one host and on three, to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_runs import dataset, runner, undisturbed, wait_for
from hosts import Hosts

STAGES = ("horizon-2", "horizon-4", "horizon-8")


@pytest.fixture(scope="module")
def cluster(hosts: Hosts) -> Hosts:
    hosts.start(0, 1, 2)
    return hosts


def stop_in(hosts: Hosts, job: Path, root: Path, stage: int) -> None:
    """Leave a run as a driver leaves it that is killed once it has something of a stage."""
    driver = hosts.popen(None, *runner("submit", job, "--run-dir", root, "--address", "inline", "--set", "execution.batch=1"))
    wait_for(root, "done", 3 * stage + 1)
    driver.kill()
    driver.wait()


@pytest.mark.parametrize("actors", [1, 2, 5])
@pytest.mark.parametrize("stage", range(len(STAGES)), ids=STAGES)
@pytest.mark.parametrize("place", ["one host", "three hosts"])
def test_a_run_that_was_stopped_goes_on(cluster: Hosts, job: Path, place: str, stage: int, actors: int) -> None:
    root = job.parent / "run"
    stop_in(cluster, job, root, stage)
    address = ("--address", cluster.url) if place == "three hosts" else ()
    code, output = cluster.run(None, *runner("resume", root, "--actors", str(actors), *address))
    assert code == 0, output
    assert dataset(root) == undisturbed(cluster, job, job.parent / "inline")

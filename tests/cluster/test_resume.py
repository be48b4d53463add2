"""A run stopped in each of its stages goes on with other numbers of actors, on one host and on three, to the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from cluster_runs import dataset, runner, three_stages, undisturbed, wait_for
from hosts import Hosts

from runner.run import open_run

STAGES = ("horizon-2", "horizon-4", "horizon-8")

PACE_SECONDS = 3.0
"""For a lease: longer than a result waits for others, so that the second of a stage's three, at the latest, is committed before
the third."""


@pytest.fixture(scope="module")
def cluster(hosts: Hosts) -> Hosts:
    hosts.start(0, 1, 2)
    return hosts


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_stages(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def expected(cluster: Hosts, job: Path) -> dict[str, bytes]:
    return undisturbed(cluster, job, job.parent / "inline")


@pytest.fixture(scope="module")
def stopped(cluster: Hosts, job: Path) -> Mapping[str, Path]:
    """Stage -> a run as a driver leaves it that is killed in the middle of it."""
    cluster.pace(PACE_SECONDS)
    runs = {}
    for number, stage in enumerate(STAGES):
        root = job.parent / stage
        options = ("--run-dir", root, "--address", "inline", "--set", "execution.batch=1")
        driver = cluster.popen(None, *cluster.paced_runner("submit", job, *options))
        wait_for(root, "done", 3 * number + 1)
        driver.kill()
        driver.wait()
        done = [count.done for count in open_run(root).verdict().stages]
        assert done[:number] == [3] * number
        assert 0 < done[number] < 3
        runs[stage] = root
    cluster.pace(0.0)
    return runs


@pytest.mark.parametrize("actors", [1, 2, 5])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("place", ["one host", "three hosts"])
def test_a_run_that_was_stopped_goes_on(
    cluster: Hosts,
    stopped: Mapping[str, Path],
    expected: dict[str, bytes],
    tmp_path: Path,
    *,
    place: str,
    stage: str,
    actors: int,
) -> None:
    root = shutil.copytree(stopped[stage], tmp_path / "run")
    address = ("--address", cluster.url) if place == "three hosts" else ()
    code, output = cluster.run(None, *runner("resume", root, "--actors", str(actors), *address))
    assert code == 0, output
    assert dataset(root) == expected

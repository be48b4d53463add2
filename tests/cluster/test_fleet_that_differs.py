"""A host that is not as the others is refused before any work, in one line that names it, with the documented exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cluster_runs import dataset, runner, undisturbed
from hosts import Hosts

import kernels
import runner as package

ROOT = Path(package.__file__).parents[1]
PACKAGES = ("runner", "actors", "kernels", "schemas")


@pytest.fixture(scope="module")
def pair(hosts: Hosts) -> Hosts:
    """A head that is as it should be."""
    hosts.start(0)
    return hosts


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return shutil.copytree(kernels.builtin_checkpoint(), tmp_path / "checkpoint")


def submit(pair: Hosts, job: Path, *options: str) -> tuple[int, list[str]]:
    """(exit code, what was said beside progress)."""
    command = runner("submit", job, "--run-dir", job.parent / "run", "--address", pair.url, *options)
    code, output = pair.run(None, *command)
    return code, [line for line in output.splitlines() if line and not line.startswith(("stage ", "runner: submitted as "))]


def start_again(pair: Hosts, host: int, folders: dict[Path, Path]) -> None:
    pair.kill(host)
    if host:
        pair.forget(host)  # else the survey, or a worker, may still be sent there
    pair.show(host, folders)
    pair.start(host)


def test_a_host_without_the_package(pair: Hosts, job: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    start_again(pair, 1, {ROOT / name: tmp_path / "empty" for name in PACKAGES})
    code, lines = submit(pair, job)
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"runner: host {pair.address(1)}: package: found No module named 'actors.")


def test_a_host_without_the_checkpoint(pair: Hosts, job: Path, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    start_again(pair, 1, {checkpoint: tmp_path / "empty"})
    code, lines = submit(pair, job, "--set", f"checkpoint={checkpoint}")
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"runner: host {pair.address(1)}: {checkpoint}")


def test_a_host_with_another_checkpoint(pair: Hosts, job: Path, checkpoint: Path, tmp_path: Path) -> None:
    other = shutil.copytree(checkpoint, tmp_path / "other")
    with (other / "config.json").open("a") as config:
        config.write("\n")
    start_again(pair, 1, {checkpoint: other})
    code, lines = submit(pair, job, "--set", f"checkpoint={checkpoint}")
    assert (code, len(lines)) == (2, 1), lines
    assert f"{pair.address(1)} on host1 has " in lines[0]


def test_a_host_with_other_weights_of_the_same_shape(pair: Hosts, job: Path, checkpoint: Path, tmp_path: Path) -> None:
    other = shutil.copytree(checkpoint, tmp_path / "other")
    shard = sorted(other.glob("*.safetensors"))[-1]
    shard.chmod(0o600)
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    start_again(pair, 1, {checkpoint: other})
    code, lines = submit(pair, job, "--set", f"checkpoint={checkpoint}")
    assert (code, len(lines)) == (2, 1), lines
    assert f"{pair.address(1)} on host1 has " in lines[0]


def test_a_host_with_another_kernel_build(pair: Hosts, job: Path, tmp_path: Path) -> None:
    other = shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    with (other / "__init__.py").open("a") as module:
        module.write('\nBUILD_ID = "0" * 64\n')
    start_again(pair, 1, {ROOT / "kernels": other})
    code, lines = submit(pair, job)
    assert (code, len(lines)) == (4, 1), lines
    assert f"kernel builds differ: {pair.address(1)} on host1 has 000000000000" in lines[0]


def test_a_worker_needs_all_its_threads_on_one_host(pair: Hosts, job: Path) -> None:
    start_again(pair, 1, {})
    code, lines = submit(pair, job, "--threads", "3")
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0] == "runner: execution.threads: found 3, allowed: 1..2: the largest of 2 hosts has 2 CPUs"


def test_other_cpu_features_change_nothing(pair: Hosts, job: Path, tmp_path: Path) -> None:
    """A host whose kernels are scalar joins, and the bytes are those of a single process."""
    other = shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    module = (other / "__init__.py").read_text()
    (other / "__init__.py").write_text(f'import os\nos.environ["RUNNER_ISA"] = "scalar"\n{module}')
    start_again(pair, 1, {ROOT / "kernels": other})
    code, lines = submit(pair, job)
    assert code == 0, lines
    assert dataset(job.parent / "run") == undisturbed(pair, job, job.parent / "inline")


def test_a_head_without_the_package(pair: Hosts, job: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    pair.kill(1)
    start_again(pair, 0, {ROOT / name: tmp_path / "empty" for name in PACKAGES})
    code, lines = submit(pair, job)
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith("runner: host host0: ")
    assert " cannot import the package: " in lines[0]

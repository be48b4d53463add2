"""What every host of a cluster has, found out before any of them gets work: the package, the kernels, the checkpoint.

Without it a host that lacks the package would only be one on which no worker ever starts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster import Cluster, Host
from actors.executor import WorkerReport, WorkerSpec
from actors.fleet import admit
from actors.worker import Worker
from schemas.errors import InvalidInput, RunnerError

SURVEY_SECONDS = 60.0
"""A host that has not answered by then is left to the workers that are placed on it."""

PROCEED_SECONDS = 0.5
"""Between two questions whether the start shall go on."""


def survey(cluster: Cluster, spec: WorkerSpec, environment: Mapping[str, str], proceed: Callable[[], None]) -> list[WorkerReport]:
    """Reports of all hosts that may get workers, each named by its address, and of this process. proceed: see Executor.start.

    Raises InvalidInput for a host without the package or with a checkpoint that cannot be used, for checkpoints that differ, and
    where no host has the CPUs that a worker's threads need; ConformanceFinding for kernels that differ.
    """
    hosts = [host for host in cluster.hosts() if host.cpus]
    large = [host for host in hosts if host.cpus >= spec.threads]
    if hosts and not large:
        most = max(host.cpus for host in hosts)
        raise InvalidInput(
            "execution.threads", "", str(spec.threads), f"1..{most}: the largest of {len(hosts)} hosts has {most} CPUs"
        )
    calls = {_ask(host, spec, environment): host for host in large}
    reports = [Worker(spec, "driver").report(with_content=True)]  # what its run was started with
    answered: list[Any] = []
    waiting, end = list(calls), time.monotonic() + SURVEY_SECONDS
    while waiting and time.monotonic() < end:
        proceed()
        ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=PROCEED_SECONDS)
        answered += ready
    for call in sorted(answered, key=lambda call: calls[call].address):
        try:
            answer = ray.get(call)
        except ray.exceptions.RayError:
            continue  # the host is gone, or about to be
        if isinstance(answer, WorkerReport):
            reports.append(answer)
        else:
            raise _named(answer, calls[call])
    admit(reports)
    return reports


def room_for(hosts: Sequence[Host], threads: int) -> int:
    """Workers that the hosts hold: each has CPUs for all its threads on one host."""
    return sum(host.cpus // threads for host in hosts)


def _ask(host: Host, spec: WorkerSpec, environment: Mapping[str, str]) -> Any:
    look = ray.remote(_look).options(
        num_cpus=0,
        max_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(host.node, soft=False),
        runtime_env={"env_vars": dict(environment)},
    )
    return look.remote(spec.checkpoint, spec.numerics, spec.threads, host.address)


def _look(checkpoint: str, numerics: Any, threads: int, name: str) -> object:
    """A host's report, or why there is none: (what could not be imported, by which interpreter), or a RunnerError."""
    try:
        from actors.executor import WorkerSpec
        from actors.worker import Worker
        from schemas.errors import RunnerError
    except ImportError as error:
        import sys

        return f"{error} for {sys.executable}"
    try:
        return Worker(WorkerSpec(checkpoint, numerics, threads), name).report(with_content=True)
    except RunnerError as error:
        return error


def _named(answer: object, host: Host) -> RunnerError:
    """Why a host cannot be used, with the host in it."""
    if isinstance(answer, InvalidInput):
        return InvalidInput(f"host {host.address}: {answer.file}", answer.key, answer.found, answer.allowed)
    if isinstance(answer, RunnerError):
        return answer
    return InvalidInput(f"host {host.address}", "package", str(answer), "moe-conformance-runner, installed as it is here")


# `_look` travels by value: by name it could not even say that the package is missing.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

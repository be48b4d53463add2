"""Numbers for Ray's exporter: what is counted, and that it arrives where Prometheus reads it."""

from __future__ import annotations

import re
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tiny_run import DirectedExecutor, drive, experiment, worker_report

from runner.metrics import RayMetrics


@dataclass
class Counted:
    """Implements `runner.metrics.Metrics`."""

    units: Counter[tuple[str, str]] = field(default_factory=Counter)
    in_hand: list[int] = field(default_factory=list)

    def done(self, units: int, *, host: str, seconds: float) -> None:
        assert seconds == pytest.approx(0.1)  # as the executor says, a unit
        self.units["done", host] += units

    def set_aside(self, units: int, *, host: str) -> None:
        self.units["set aside", host] += units

    def tried_again(self, units: int, *, host: str) -> None:
        self.units["tried again", host] += units

    def in_flight(self, units: int) -> None:
        self.in_hand.append(units)


def test_units_are_counted_by_what_becomes_of_them_and_where(tmp_path: Path) -> None:
    counted = Counted()
    executor = DirectedExecutor(
        trouble=lambda lease: "crash" if any(unit.prompt_id == "p3" for unit in lease.units) else None,
        joining=[worker_report("w0")],
    )
    store = drive(tmp_path, executor, about=experiment(batch=1), metrics=counted)
    done = len(store.units("4")) + len(store.units("8"))
    assert counted.units == {("done", "here"): done, ("set aside", "here"): 1, ("tried again", "here"): 2}
    assert max(counted.in_hand) > 0
    assert counted.in_hand[-1] == 0


@pytest.mark.slow
def test_ray_exports_them_with_their_tags() -> None:
    import ray

    from actors.cluster import Cluster

    cluster = Cluster.embed(1)
    try:
        metrics = RayMetrics(run="the-run", protocol="breadth")
        metrics.done(3, host="there", seconds=0.07)
        metrics.set_aside(1, host="there")
        metrics.tried_again(2, host="there")
        metrics.in_flight(4)
        port = ray.nodes()[0]["MetricsExportPort"]  # type: ignore[no-untyped-call]
        exported: dict[str, float] = {}
        end = time.monotonic() + 90
        while "in_flight" not in str(exported):
            assert time.monotonic() < end
            time.sleep(1)
            exported = _exported(f"http://127.0.0.1:{port}/metrics")
    finally:
        cluster.close()
    assert exported == {
        "ray_runner_units_done_total": 3,
        "ray_runner_units_failed_total": 1,
        "ray_runner_units_retried_total": 2,
        "ray_runner_units_in_flight": 4,
        "ray_runner_unit_seconds_count": 3,
        "ray_runner_unit_seconds_sum": pytest.approx(0.21, abs=0.03),
    }


def _exported(url: str) -> dict[str, float]:
    """Our numbers by name, but for the histogram's buckets; all must be of this run."""
    try:
        text = urllib.request.urlopen(url, timeout=5).read().decode()
    except OSError:  # the exporter is not up yet
        return {}
    found = re.findall(r"^(ray_runner_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE)
    assert all('run="the-run"' in tags and 'protocol="breadth"' in tags for _, tags, _ in found)
    return {name: float(value) for name, tags, value in found if not name.endswith("_bucket")}

"""Numbers of a run for Ray's exporter, which Prometheus reads on every node's metrics port; none where Ray isn't in use."""

from __future__ import annotations

from typing import Any, Protocol

SECONDS = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]
"""Upper bounds of the histogram of a unit's compute time."""

TAGS = ("run", "protocol", "host")


class Metrics(Protocol):
    """What the driver counts. host: of the worker that it happened on, "" where there is none."""

    def done(self, units: int, *, host: str, seconds: float) -> None:
        """So many units of a lease were committed; seconds: compute time of one of them."""

    def set_aside(self, units: int, *, host: str) -> None: ...

    def tried_again(self, units: int, *, host: str) -> None: ...

    def in_flight(self, units: int) -> None: ...


class NoMetrics:
    """Counts nothing."""

    def done(self, units: int, *, host: str, seconds: float) -> None:
        pass

    def set_aside(self, units: int, *, host: str) -> None:
        pass

    def tried_again(self, units: int, *, host: str) -> None:
        pass

    def in_flight(self, units: int) -> None:
        pass


class RayMetrics:
    """Counters `runner_units_{done,failed,retried}`, gauge `runner_units_in_flight`, histogram `runner_unit_seconds`.

    run: the run directory's name. Ray hands them on from the process that counts, which has to be connected by the first count.
    """

    def __init__(self, *, run: str, protocol: str) -> None:
        self._tags = {"run": run, "protocol": protocol}
        self._meters: dict[str, Any] = {}

    def done(self, units: int, *, host: str, seconds: float) -> None:
        meters = self._connected()
        meters["done"].inc(units, self._tags | {"host": host})
        for _ in range(units):
            meters["seconds"].observe(seconds, self._tags | {"host": host})

    def set_aside(self, units: int, *, host: str) -> None:
        self._connected()["failed"].inc(units, self._tags | {"host": host})

    def tried_again(self, units: int, *, host: str) -> None:
        self._connected()["retried"].inc(units, self._tags | {"host": host})

    def in_flight(self, units: int) -> None:
        self._connected()["in_flight"].set(units, self._tags | {"host": ""})

    def _connected(self) -> dict[str, Any]:
        if not self._meters:
            # Here, because Ray takes a second to import, and meters made before it is connected reach nobody.
            from ray.util.metrics import Counter, Gauge, Histogram

            self._meters = {
                "done": Counter("runner_units_done", "Units committed", TAGS),
                "failed": Counter("runner_units_failed", "Units set aside after strikes", TAGS),
                "retried": Counter("runner_units_retried", "Units handed over again after a failure", TAGS),
                "in_flight": Gauge("runner_units_in_flight", "Units in workers' hands", TAGS),
                "seconds": Histogram("runner_unit_seconds", "Compute time of a unit", SECONDS, TAGS),
            }
        return self._meters

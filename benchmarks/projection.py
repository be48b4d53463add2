"""A sweep of all orders of one fork on the real Flash, computed from measured constants, by disk bandwidth.

    python -m benchmarks.projection docs/performance/results.json

What is measured: multiply-adds a second of FP4 and FP8 products for one row and for 64, how much longer than its products a whole
token takes at the full geometry, how many different experts the branches of a fork chose together, the disk's bandwidth. What is
computed: how many bytes and multiply-adds a sweep needs, from the layout alone. Assumed: reading and computing overlap, so a step
takes the longer of the two.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from layouts import flash_config, tensors

DISKS = (0.5, 1.0, 3.0, 7.0, 14.0)
"""GB/s: a network volume, a slow local disk, and three generations of NVMe."""

CORES = 32
"""Of the larger host that the projection is made for, beside the one that was measured."""


@dataclass(frozen=True)
class Model:
    """What a token needs, bytes and multiply-adds. dense: of all weights but routed experts. expert: of one routed expert."""

    layers: int
    experts: int
    experts_per_token: int
    dense_bytes: int
    dense_products: int
    expert_bytes: int
    expert_products: int

    @property
    def token_bytes(self) -> int:
        return self.dense_bytes + self.layers * self.experts_per_token * self.expert_bytes

    @property
    def token_products(self) -> int:
        return self.dense_products + self.layers * self.experts_per_token * self.expert_products


@dataclass(frozen=True)
class Speed:
    """Multiply-adds a second for one row and for many; FP8 stands for all dense weights. overhead: a token over its products."""

    fp4_one: float
    fp4_many: float
    fp8_one: float
    fp8_many: float
    overhead: float

    def times(self, factor: float) -> Speed:
        """On a host with `factor` times the cores, if products were to scale with them."""
        return Speed(self.fp4_one * factor, self.fp4_many * factor, self.fp8_one * factor, self.fp8_many * factor, self.overhead)

    def seconds(self, model: Model, rows: int) -> float:
        """One step of `rows` rows, weights in memory. Rows that share experts count as many where there are more than one."""
        fp4, fp8 = (self.fp4_many, self.fp8_many) if rows > 1 else (self.fp4_one, self.fp8_one)
        routed = model.layers * model.experts_per_token * model.expert_products
        return rows * (model.dense_products / fp8 + routed / fp4) * self.overhead


@dataclass(frozen=True)
class Sweep:
    orders: int = 720
    tokens: int = 8


@dataclass(frozen=True)
class Cost:
    """Of a whole sweep: bytes read from disk, seconds of arithmetic."""

    disk_bytes: float
    compute_seconds: float

    def seconds(self, disk: float) -> float:
        """disk: GB/s."""
        return max(self.disk_bytes / disk / 1e9, self.compute_seconds)


def distinct_experts(model: Model, rows: int) -> float:
    """Expected different experts of a layer that rows of independent, uniform routes touch: the most that a sweep reads."""
    return model.experts * (1 - (1 - model.experts_per_token / model.experts) ** rows)


def together(model: Model, speed: Speed, sweep: Sweep, experts_a_layer: float) -> Cost:
    """All branches as rows of one step: each weight read once a step for all of them, from disk every time."""
    step = model.dense_bytes + model.layers * experts_a_layer * model.expert_bytes
    return Cost(sweep.tokens * step, sweep.tokens * speed.seconds(model, sweep.orders))


def one_at_a_time(model: Model, speed: Speed, sweep: Sweep, *, dense_in_memory: bool) -> Cost:
    """One branch after the other, a token a step: routed experts from disk each time, the rest too unless it stays in memory."""
    token = model.token_bytes - (model.dense_bytes if dense_in_memory else 0)
    count = sweep.orders * sweep.tokens
    return Cost(count * token, count * speed.seconds(model, 1))


def model_of(config: Mapping[str, Any]) -> Model:
    """Counted from the layout of a checkpoint with this config.json."""
    matrices = {"F8_E4M3": 1, "BF16": 1, "F32": 1, "I8": 2}  # weights an element
    dense_bytes = dense = expert_bytes = expert = 0
    for spec in tensors(dict(config)):
        own_row = spec.name == "embed.weight" or spec.name.endswith("tid2eid")
        if spec.name.startswith("mtp.") or own_row:
            continue
        products = (
            math.prod(spec.shape) * matrices.get(spec.dtype, 0) if len(spec.shape) == 2 and not spec.name.endswith("ape") else 0
        )
        if spec.name.startswith("layers.0.ffn.experts.0."):
            expert_bytes, expert = expert_bytes + spec.nbytes, expert + products
        elif ".ffn.experts." not in spec.name:
            dense_bytes, dense = dense_bytes + spec.nbytes, dense + products
    layers = config["num_hidden_layers"]
    return Model(layers, config["n_routed_experts"], config["num_experts_per_tok"], dense_bytes, dense, expert_bytes, expert)


def measured_speed(results: Mapping[str, Any], model: Model) -> Speed:
    """From the widest instruction set and the most threads that were measured; one row from memory, many likewise."""
    isa = results["machine"]["instruction_set"]
    found = [row for row in results["products"] if row["isa"] == isa and row["order"] == "fixed" and row["place"] == "memory"]
    threads = max(row["threads"] for row in found)

    def rate(kind: str, batch: int) -> float:
        shapes = [
            float(median(row["gfma"])) for row in found if (row["format"], row["batch"], row["threads"]) == (kind, batch, threads)
        ]
        return 1e9 * len(shapes) / sum(1 / shape for shape in shapes)

    products = Speed(rate("FP4", 1), rate("FP4", 64), rate("FP8", 1), rate("FP8", 64), 1.0)
    token = min(results["full_geometry"]["token_seconds"])
    overhead = max(1.0, token / products.seconds(model, 1))
    return Speed(products.fp4_one, products.fp4_many, products.fp8_one, products.fp8_many, overhead)


def project(results: Mapping[str, Any]) -> dict[str, Any]:
    sweep = Sweep()
    model = model_of(flash_config())
    speed = measured_speed(results, model)
    alike = _experts_of_branches(results, model)
    measured = max(median(row["gb"]) for row in results["disk"]["direct"])
    disks = sorted({*DISKS, round(measured, 1)})
    threads = max(row["threads"] for row in results["products"])
    return {
        "orders": sweep.orders,
        "tokens": sweep.tokens,
        "token_bytes": model.token_bytes,
        "overhead": speed.overhead,
        "hosts": [
            {"cores": cores, "ways": _ways(model, speed.times(cores / threads), sweep, alike, disks)}
            for cores in (threads, CORES)
        ],
    }


def _ways(model: Model, speed: Speed, sweep: Sweep, alike: float, disks: Sequence[float]) -> dict[str, Any]:
    costs = {
        "together, routes independent": together(model, speed, sweep, distinct_experts(model, sweep.orders)),
        "together, routes as alike as measured": together(model, speed, sweep, alike),
        "one at a time, all from disk": one_at_a_time(model, speed, sweep, dense_in_memory=False),
        "one at a time, all but routed experts in memory": one_at_a_time(model, speed, sweep, dense_in_memory=True),
    }
    return {
        name: {"disk_bytes": cost.disk_bytes, "compute_seconds": cost.compute_seconds}
        | {"hours": {f"{disk:.1f}": cost.seconds(disk) / 3600 for disk in disks}}
        for name, cost in costs.items()
    }


def _experts_of_branches(results: Mapping[str, Any], model: Model) -> float:
    """Different experts a layer that 720 branches of one fork chose, as a multiple of one row's, taken over to this model."""
    [most] = [row for row in results["sweep"][0]["rows"] if row["rows"] == 720]
    [one] = [row for row in results["sweep"][0]["rows"] if row["rows"] == 1]
    return model.experts_per_token * float(most["experts_a_layer"]) / float(one["experts_a_layer"])


def columns(host: Mapping[str, Any]) -> list[str]:
    disks = next(iter(host["ways"].values()))["hours"]
    return [f"{host['cores']} cores", "TB read", "hours computing", *(f"hours at {disk} GB/s" for disk in disks)]


def lines(host: Mapping[str, Any]) -> list[list[str]]:
    """A row a way, to the columns."""
    return [
        [name, *(f"{figure:.2f}" for figure in (way["disk_bytes"] / 1e12, way["compute_seconds"] / 3600, *way["hours"].values()))]
        for name, way in host["ways"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    for host in project(json.loads(options.results.read_text()))["hosts"]:
        for name, *cells in (columns(host), *lines(host)):
            print(f"{name:50}", *(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()

"""The projection's arithmetic: what a sweep of the real Flash reads and computes, from round figures."""

from __future__ import annotations

from typing import Any

import pytest
from layouts import FLASH_BYTES, flash_config, tensors

from benchmarks import projection
from benchmarks.projection import Cost, Model, Speed, Sweep

MODEL = Model(layers=2, experts=8, experts_per_token=2, dense_bytes=100, dense_products=1000, expert_bytes=10, expert_products=50)
SPEED = Speed(fp4_one=10.0, fp4_many=100.0, fp8_one=20.0, fp8_many=200.0, overhead=2.0)


def results(threads: int = 2) -> dict[str, Any]:
    """What the projection reads of a run's results."""
    product = {"isa": "avx2", "order": "fixed", "place": "memory", "threads": threads}
    rates = {("FP4", 1): 10.0, ("FP4", 64): 40.0, ("FP8", 1): 5.0, ("FP8", 64): 50.0}
    return {
        "machine": {"instruction_set": "avx2"},
        "products": [
            product | {"format": kind, "batch": batch, "gfma": [rate, rate / 2, rate * 2]}
            for (kind, batch), rate in rates.items()
        ],
        "full_geometry": {"token_seconds": [9.0, 6.0]},
        "sweep": [{"rows": [{"rows": 1, "experts_a_layer": 6.0}, {"rows": 720, "experts_a_layer": 9.0}]}],
        "disk": {"direct": [{"readers": 1, "gb": [1.0, 2.0, 3.0]}]},
    }


def test_independent_routes_touch_one_rows_experts_and_at_last_all() -> None:
    assert projection.distinct_experts(MODEL, 1) == pytest.approx(2)
    assert projection.distinct_experts(MODEL, 2) == pytest.approx(2 + 2 * 6 / 8)
    assert projection.distinct_experts(MODEL, 10_000) == pytest.approx(8)


def test_together_reads_each_weight_once_a_step() -> None:
    cost = projection.together(MODEL, SPEED, Sweep(orders=720, tokens=8), experts_a_layer=3)
    assert cost.disk_bytes == 8 * (100 + 2 * 3 * 10)
    assert cost.compute_seconds == pytest.approx(8 * 720 * (1000 / 200 + 2 * 2 * 50 / 100) * 2)


def test_one_at_a_time_reads_its_weights_for_every_token() -> None:
    everything = projection.one_at_a_time(MODEL, SPEED, Sweep(720, 8), dense_in_memory=False)
    routed = projection.one_at_a_time(MODEL, SPEED, Sweep(720, 8), dense_in_memory=True)
    assert (everything.disk_bytes, routed.disk_bytes) == (5760 * (100 + 2 * 2 * 10), 5760 * 2 * 2 * 10)
    assert everything.compute_seconds == routed.compute_seconds == pytest.approx(5760 * (1000 / 20 + 4 * 50 / 10) * 2)


def test_a_sweep_takes_the_longer_of_reading_and_computing() -> None:
    assert Cost(10e9, 3.0).seconds(1.0) == 10.0
    assert Cost(10e9, 3.0).seconds(14.0) == 3.0


def test_flash_is_counted_whole() -> None:
    """What no token reads of the published bytes: the MTP block, and all of the embedding and hash tables but a row."""
    model = projection.model_of(flash_config())
    elsewhere = [spec for spec in tensors(flash_config()) if spec.name.startswith("mtp.") or spec.name.endswith("tid2eid")]
    unread = sum(spec.nbytes for spec in elsewhere) + 2 * 129280 * 4096
    assert model.dense_bytes + model.layers * model.experts * model.expert_bytes == FLASH_BYTES - unread
    assert 11e9 < model.token_bytes < 11.5e9
    assert 12e9 < model.token_products < 14e9  # the published 13 billion active parameters, the embedding not among them


def test_speed_comes_from_medians_and_the_token_that_was_timed() -> None:
    model = projection.model_of(flash_config())
    speed = projection.measured_speed(results(), model)
    assert (speed.fp4_one, speed.fp4_many, speed.fp8_one, speed.fp8_many) == (10e9, 40e9, 5e9, 50e9)
    assert speed.seconds(model, 1) == pytest.approx(6.0)


def test_a_projection_names_every_way_at_every_disk() -> None:
    found = projection.project(results())
    measured, larger = found["hosts"]
    assert (measured["cores"], larger["cores"]) == (2, projection.CORES)
    for host in (measured, larger):
        assert len(projection.lines(host)) == len(host["ways"]) == 4
        assert all(list(way["hours"]) == ["0.5", "1.0", "2.0", "3.0", "7.0", "14.0"] for way in host["ways"].values())
        assert {len(line) for line in (projection.columns(host), *projection.lines(host))} == {9}
        read = {name: way["disk_bytes"] for name, way in host["ways"].items()}
        assert read["together, routes as alike as measured"] < read["together, routes independent"]
        assert read["together, routes independent"] < read["one at a time, all but routed experts in memory"] / 10
    way = "together, routes independent"
    assert measured["ways"][way]["disk_bytes"] == larger["ways"][way]["disk_bytes"]
    assert measured["ways"][way]["compute_seconds"] == pytest.approx(16 * larger["ways"][way]["compute_seconds"])

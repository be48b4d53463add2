"""Every unit is written down with the reason why it will run or not."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_run import DirectedExecutor, TinyProtocol, drive, experiment, open_store

from runner.paths import RunPaths
from runner.plan import Change, changed_fields, plan_stage
from runner.store import RunStore
from schemas.errors import ClusterUnreachable
from schemas.unit import Unit


def test_the_plan_is_on_disk_before_the_first_unit_runs(tmp_path: Path) -> None:
    planned = []

    def look(lease: object) -> None:
        planned.append(RunStore(RunPaths(tmp_path), TinyProtocol().schemas()).planned_keys("4"))

    drive(tmp_path, DirectedExecutor(trouble=look))
    assert len(planned[0]) == 6


def test_a_plan_says_what_is_new_done_and_failed(tmp_path: Path) -> None:
    executor = DirectedExecutor(workers_alive=1)

    def trouble(lease: object) -> str | None:
        if executor.leases[-1].units[0].prompt_id == "p0":
            return "crash"
        return None if len(executor.leases) < 8 else "infrastructure"

    executor.trouble = trouble  # type: ignore[assignment]
    with pytest.raises(ClusterUnreachable):
        drive(tmp_path, executor, about=experiment(batch=1))
    store = open_store(tmp_path)
    planned = plan_stage(store, "4", TinyProtocol().units(experiment(), "4", store))
    reasons = Counter(unit.reason for unit in planned)
    assert set(reasons) == {"new", "done", "failed"}
    assert reasons["failed"] == 1
    assert reasons["done"] == len(store.units("4"))


def test_a_stale_unit_says_which_field_changed(tmp_path: Path) -> None:  # R06
    drive(tmp_path, protocol=TinyProtocol(fork={"layer": 5}))
    store = open_store(tmp_path)
    changed = TinyProtocol(fork={"layer": 6})
    planned = plan_stage(store, "4", changed.units(experiment(), "4", store))
    assert {(unit.reason, unit.changed) for unit in planned} == {("stale", ("parameters.fork.layer",))}


def test_a_stale_unit_says_what_its_fields_were(tmp_path: Path) -> None:
    drive(tmp_path, protocol=TinyProtocol(fork={"layer": 5}, numerics="official", gone=1))
    store = open_store(tmp_path)
    about = experiment()
    prompts = [replace(about.prompts[0], text="another text"), *about.prompts[1:]]
    changed = TinyProtocol(fork={"layer": 6}, numerics="fp32")
    planned = plan_stage(store, "4", changed.units(replace(about, prompts=prompts), "4", store))
    fork = Change("parameters.fork.layer", "5", "6")
    numerics = Change("parameters.numerics", '"official"', '"fp32"')
    gone = Change("parameters.gone", "1", "nothing")
    assert planned[1].changes == (fork, gone, numerics)
    assert planned[1].why.startswith("parameters.fork.layer changed from 5 to 6, parameters.gone changed from 1 to nothing, ")
    assert planned[0].changed == ("parameters.fork.layer", "parameters.gone", "parameters.numerics", "prompt")
    assert "prompt changed from" in planned[0].why
    assert "…" in planned[0].why


def test_a_unit_that_is_set_aside_says_why(tmp_path: Path) -> None:
    drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if lease.units[0].prompt_id == "p0" else None))
    store = open_store(tmp_path)
    planned = plan_stage(store, "4", TinyProtocol().units(experiment(), "4", store))
    assert [(one.unit.prompt_id, one.why) for one in planned if one.reason == "failed"] == [
        ("p0", "crash after 3 tries: crash in lease")
    ]


def test_an_added_prompt_makes_no_other_unit_stale(tmp_path: Path) -> None:
    drive(tmp_path)
    store = open_store(tmp_path)
    planned = plan_stage(store, "4", TinyProtocol().units(experiment(prompts=7), "4", store))
    assert Counter(unit.reason for unit in planned) == {"done": 6, "new": 1}


def test_a_plan_takes_little_memory_beside_its_units(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    units = [Unit("4", f"p{number}", {"horizon": number}) for number in range(5_000)]
    tracemalloc.start()
    try:
        planned = plan_stage(store, "4", units)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300 * len(planned)


def test_two_units_with_one_key_are_refused(tmp_path: Path) -> None:
    unit = Unit("4", "p0", {"horizon": 4})
    with pytest.raises(ValueError, match="2 units have only 1 keys"):
        plan_stage(open_store(tmp_path), "4", [unit, unit])


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"a": 1}, {"a": 1}, ()),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ("a.c",)),
        ({"a": 1}, {"b": 1}, ("a", "b")),
        ({"a": None}, {}, ("a",)),
        ({"a": [1, 2]}, {"a": (1, 2)}, ()),
    ],
)
def test_changed_fields_are_named_with_their_place(before: dict[str, object], after: dict[str, object], changed: object) -> None:
    assert changed_fields(before, after) == changed

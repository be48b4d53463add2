"""Leases: by group, sized by measured cost, alone when suspect."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runner.leases import TARGET_SECONDS, LeaseQueue
from schemas.unit import Unit


def some_units(groups: Sequence[str]) -> list[Unit]:
    return [Unit("s", f"p{number}", {"number": number}, group=group) for number, group in enumerate(groups)]


def names(units: Sequence[Unit]) -> list[str]:
    return [unit.prompt_id for unit in units]


def test_a_queue_takes_little_memory_beside_its_units() -> None:
    units = some_units([f"g{number}" for number in range(5_000)])
    tracemalloc.start()
    try:
        queue = LeaseQueue(units, largest=64)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20 * len(queue)


@given(groups=st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=40), data=st.data())
def test_every_unit_is_leased_once(groups: list[str], data: st.DataObject) -> None:
    queue = LeaseQueue(some_units(groups), largest=data.draw(st.integers(1, 9)))
    leased: list[str] = []
    while queue:
        before = len(queue)
        lease = queue.take(workers=data.draw(st.integers(0, 4)))
        assert len(queue) == before - len(lease.units)
        leased += names(lease.units)
        queue.measured(len(lease.units), data.draw(st.floats(0.001, 10)))
    assert sorted(leased) == sorted(f"p{number}" for number in range(len(groups)))


def test_a_lease_holds_one_unit_until_the_cost_is_known() -> None:
    queue = LeaseQueue(some_units(["a"] * 8), largest=8)
    assert [len(queue.take(workers=1).units) for _ in range(3)] == [1, 1, 1]


def test_a_lease_is_sized_to_the_target() -> None:
    queue = LeaseQueue(some_units([""] * 100), largest=100)
    queue.measured(1, TARGET_SECONDS / 10)
    assert len(queue.take(workers=1).units) == 10


def test_a_lease_is_never_larger_than_allowed() -> None:
    queue = LeaseQueue(some_units([""] * 100), largest=3)
    queue.measured(1, 1e-6)
    assert len(queue.take(workers=1).units) == 3


def test_the_last_units_are_shared_among_workers() -> None:
    queue = LeaseQueue(some_units([""] * 8), largest=100)
    queue.measured(1, 1e-6)
    assert len(queue.take(workers=4).units) == 2


def test_units_of_a_group_travel_together() -> None:
    queue = LeaseQueue(some_units(["a", "b", "a", "b", "a", "b"]), largest=4)
    queue.measured(1, 1e-6)
    assert names(queue.take(workers=1).units) == ["p0", "p2", "p4"]  # b would not fit whole
    assert names(queue.take(workers=1).units) == ["p1", "p3", "p5"]


def test_what_is_left_of_a_group_takes_the_next_ones_along_that_fit() -> None:
    queue = LeaseQueue(some_units(["a"] * 5 + ["b"] * 3 + ["", ""]), largest=4)
    queue.measured(1, 1e-6)
    leases = [names(queue.take(workers=1).units) for _ in range(3)]
    assert leases == [["p0", "p1", "p2", "p3"], ["p4", "p5", "p6", "p7"], ["p8", "p9"]]
    assert not queue


def test_a_group_larger_than_a_lease_is_cut() -> None:
    queue = LeaseQueue(some_units(["a"] * 5), largest=2)
    queue.measured(1, 1e-6)
    assert [len(queue.take(workers=1).units) for _ in range(3)] == [2, 2, 1]


def test_suspects_go_alone_and_before_the_others() -> None:
    queue = LeaseQueue(some_units([""] * 6), largest=3)
    queue.measured(1, 1e-6)
    suspects = queue.take(workers=1).units
    queue.put_alone(suspects)
    assert [names(queue.take(workers=1).units) for _ in range(3)] == [["p0"], ["p1"], ["p2"]]


def test_units_of_a_lost_worker_go_first_and_together() -> None:
    queue = LeaseQueue(some_units(["a", "a", "b", "b"]), largest=2)
    queue.measured(1, 1e-6)
    queue.put_back(queue.take(workers=1).units)
    assert names(queue.take(workers=1).units) == ["p0", "p1"]


def test_units_that_lost_their_workers_again_and_again_go_last_and_alone() -> None:
    queue = LeaseQueue(some_units(["a"] * 5), largest=2)
    queue.measured(1, 1e-6)
    queue.put_last(queue.take(workers=1).units)
    assert [names(queue.take(workers=1).units) for _ in range(4)] == [["p2", "p3"], ["p4"], ["p0"], ["p1"]]


def test_lease_ids_go_on_from_stage_to_stage() -> None:
    first = LeaseQueue(some_units(["", ""]), largest=1)
    assert [first.take(1).lease_id, first.take(1).lease_id] == [0, 1]
    assert LeaseQueue(some_units([""]), largest=1, first_id=first.next_id).take(1).lease_id == 2

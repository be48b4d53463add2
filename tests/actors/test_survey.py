"""How many workers a cluster has room for."""

from __future__ import annotations

import pytest

from actors.cluster import Host
from actors.survey import room_for

HOSTS = [Host("a", "10.0.0.1", 2), Host("b", "10.0.0.2", 5), Host("c", "10.0.0.3", 0)]


@pytest.mark.parametrize(("threads", "workers"), [(1, 7), (2, 3), (3, 1), (5, 1), (6, 0)])
def test_a_worker_has_all_its_threads_on_one_host(threads: int, workers: int) -> None:
    assert room_for(HOSTS, threads) == workers


def test_no_hosts_no_room() -> None:
    assert room_for([], 1) == 0

"""Three hosts on this machine, and the runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_runs import three_stages
from hosts import Hosts, unavailable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them take minutes."""
    here = Path(__file__).parent
    reason = ""
    for item in items:
        if item.path.is_relative_to(here) and "hosts" in getattr(item, "fixturenames", ()):
            reason = reason or unavailable() or "available"
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.skipif(reason != "available", reason=reason))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Three hosts; the tests of a module say where Ray starts."""
    made = Hosts()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return three_stages(tmp_path)

"""What a worker tells of its machine."""

from __future__ import annotations

import os

import pytest

from actors import environment as module
from actors.environment import environment


def test_it_tells_what_the_system_tells() -> None:
    told = environment()
    assert told["system"]
    assert all(isinstance(value, str) and value for value in told.values())
    assert int(told["cpus"]) == os.cpu_count()


@pytest.mark.parametrize(("numbers", "text"), [([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([3, 5, 6], "3,5-6"), ([], "")])
def test_cores_are_told_as_ranges(numbers: list[int], text: str) -> None:
    assert module._ranges(numbers) == text

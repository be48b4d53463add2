"""Shared by all tests: where the package `oracle` lies, and the small random checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from oracle.cases import Case
    from oracle.geometry import Dtype

sys.path.append(str(Path(__file__).parent))  # pytest does so in one of its import modes only


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Dtype], Case]:
    """The small checkpoint of a dtype, made anew from the seed of the committed vectors."""
    from oracle.cases import small_case

    @cache
    def make(dtype: Dtype) -> Case:
        return small_case(dtype, tmp_path_factory.mktemp(f"small_{dtype}"))

    return make

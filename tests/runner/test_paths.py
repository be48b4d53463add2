"""Names of files, and names that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.paths import RunPaths


def test_a_data_file_is_named_by_table_stage_place_and_content() -> None:
    path = RunPaths(Path("runs/x")).part("breadth_units", "horizon-8", 3, "ab" * 32)
    assert path == Path("runs/x/tables/breadth_units/horizon-8-00003-abababababababab.parquet")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", "A", ".hidden", "a b", "a\n", "ü", "-x"])
def test_a_name_cannot_lead_out_of_the_run(name: str) -> None:
    paths = RunPaths(Path("runs/x"))
    for make in (
        lambda: paths.plan(name, 1, 0),
        lambda: paths.plan_file(name),
        lambda: paths.table(name),
        lambda: paths.part("tokens", name, 0, "ab" * 32),
        lambda: paths.part("tokens", "8", 0, name),
        lambda: paths.finding("tokens", "8", name),
    ):
        with pytest.raises(ValueError, match="cannot be part of a file name"):
            make()

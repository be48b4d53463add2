"""Names of files, and names that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.paths import RunPaths


def test_a_data_file_is_named_by_table_stage_and_unit() -> None:
    path = RunPaths(Path("runs/x")).data("breadth_units", "horizon-8", "ab" * 32)
    assert path == Path("runs/x/tables/breadth_units") / f"horizon-8-{'ab' * 32}.parquet"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", "A", ".hidden", "a b", "a\n", "ü", "-x"])
def test_a_name_cannot_lead_out_of_the_run(name: str) -> None:
    paths = RunPaths(Path("runs/x"))
    for make in (paths.plan, paths.commit_log, paths.failure_log, paths.table):
        with pytest.raises(ValueError, match="cannot be part of a file name"):
            make(name)
    with pytest.raises(ValueError, match="cannot be part of a file name"):
        paths.data("tokens", "8", name)

"""Support tables of the two substitutions against the raw rows on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from runner.cli.export import write_tables
from runner.run import Run


@pytest.fixture
def exported(post_mhc_run: Run, persistent_state_run: Run, tmp_path: Path) -> Path:
    for run in (post_mhc_run, persistent_state_run):
        write_tables(run, tmp_path)
    return tmp_path


def lines(folder: Path, name: str) -> list[dict[str, str]]:
    header, *rows = [line.split("\t") for line in (folder / f"{name}.tsv").read_text("utf-8").removesuffix("\n").split("\n")]
    assert rows, f"{name}: a table without rows would satisfy every loop below"
    return [dict(zip(header, row, strict=True)) for row in rows]


def raw(run: Run, table: str) -> list[dict[str, Any]]:
    """Rows as any reader of Parquet finds them."""
    return ds.dataset(run.paths.table(table)).to_table().to_pylist()


def test_mhc_equivalence_summary_counts_what_the_rows_show(exported: Path, post_mhc_run: Run) -> None:
    checkpoints, prefork = raw(post_mhc_run, "post_mhc_checkpoints"), raw(post_mhc_run, "post_mhc_prefork")
    for line in lines(exported, "mhc_equivalence_summary"):
        own = [row for row in checkpoints if row["prompt_id"] == line["prompt_id"]]
        assert int(line["vectors_equal"]) == sum(row["branch_sha256"] == row["substituted_sha256"] is not None for row in own)
        assert int(line["routes_equal"]) == sum(row["branch_experts"] == row["substituted_experts"] for row in own)
        assert int(line["prefork_equal"]) == sum(
            row["branch_sha256"] == row["native_sha256"] for row in prefork if row["prompt_id"] == line["prompt_id"]
        )
        assert line["separated"] == ("yes" if line["native_token_ids"] != line["branch_token_ids"] else "no")


def test_mhc_prefork_equivalence_has_every_layer_before_the_fork(exported: Path, post_mhc_run: Run) -> None:
    found = [
        (line["prompt_id"], int(line["layer"]), line["native_sha256"]) for line in lines(exported, "mhc_prefork_equivalence")
    ]
    wanted = [(row["prompt_id"], row["layer"], row["native_sha256"]) for row in raw(post_mhc_run, "post_mhc_prefork")]
    assert sorted(found) == sorted(wanted)
    assert len(found) == 2 * 3


def test_mhc_equivalence_has_every_row_and_no_distance(exported: Path, post_mhc_run: Run) -> None:
    found = lines(exported, "mhc_equivalence")
    assert len(found) == len(raw(post_mhc_run, "post_mhc_checkpoints"))
    assert {line["linf"] for line in found} == {"", "0.0"}
    assert {line["route_equal"] for line in found} == {"yes"}


def test_kv_equivalence_summary_adds_up_the_layers(exported: Path, persistent_state_run: Run) -> None:
    layers = raw(persistent_state_run, "persistent_state_layers")
    for line in lines(exported, "kv_equivalence_summary"):
        own = [row for row in layers if row["prompt_id"] == line["prompt_id"]]
        assert int(line["differing_values"]) == sum(row["differing_values"] for row in own)
        assert int(line["differing_layers"]) == sum(row["native_sha256"] != row["branch_sha256"] for row in own)
        assert float(line["max_abs_difference"]) == max(row["max_abs_difference"] for row in own)
        assert int(line["fp32_layers_rebuilt"]) == sum(row["fp32_rebuilt"] for row in own)


def test_kv_equivalence_layers_keeps_fp64_values(exported: Path, persistent_state_run: Run) -> None:
    wanted = {
        (row["prompt_id"], row["layer"]): row["max_abs_difference"]
        for row in raw(persistent_state_run, "persistent_state_layers")
    }
    found = {
        (line["prompt_id"], int(line["layer"])): float(line["max_abs_difference"])
        for line in lines(exported, "kv_equivalence_layers")
    }
    assert found == wanted


def test_kv_equivalence_has_a_row_a_checkpoint_and_every_one_equal(exported: Path, persistent_state_run: Run) -> None:
    found = lines(exported, "kv_equivalence")
    rows = raw(persistent_state_run, "persistent_state_checkpoints")
    assert len(found) == len(rows) == sum(row["branch_state_sha256"] == row["substituted_state_sha256"] for row in rows)
    assert {(line["state_equal"], line["post_mhc_equal"], line["route_equal"]) for line in found} == {("yes", "yes", "yes")}

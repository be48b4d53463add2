"""The tables of runs against the versions that were written down (tests/schemas/golden)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.table import TableSpec
from schemas.tables import BREADTH_CLASSES, BREADTH_UNITS, TABLES

GOLDEN = Path(__file__).parent / "golden"
SHA = "0" * 64

UNIT: dict[str, Any] = {
    "prompt_id": "en-001", "horizon": 4, "prompt_sha256": SHA, "language": "en", "kind": "ordinary",
    "checkpoint_identity": SHA, "tokenizer_identity": SHA, "numerics": "official", "prompt_token_ids": [1, 2, 3],
    "fork_layer": 5, "fork_position": 3, "fork_token": 9, "fork_experts": [7, 0, 3, 1, 9, 4], "fork_router_margin": 0.25,
    "structural_classes": 360, "distinct_moe_outputs": 360, "distinct_post_mhc": 359, "differing_from_native": 360,
    "selected_class": 135, "selected_order": 200, "selected_linf": 0.001953125,
    "native_post_mhc_sha256": SHA, "branch_post_mhc_sha256": SHA,
    "native_token_ids": [9, 8, 7, 6], "branch_token_ids": [9, 8, 5, 6], "native_token_sha256": SHA, "branch_token_sha256": SHA,
    "native_text": "one\ntwo\r\n\ttab", "branch_text": "", "separated": True, "first_difference": 3, "text_differs": True,
    "native_logit_margins": [1.0, 0.5, 0.25, 0.125], "branch_logit_margins": [1.0, 0.5, 0.25, 0.125],
    "routes_compared": 36, "routes_differing": 2, "first_route_position": 4, "first_route_layer": 7,
    "native_routes_sha256": SHA, "branch_routes_sha256": SHA, "native_router_margin_min": 0.5, "branch_router_margin_min": 0.5,
    "state_position": 6, "native_state_sha256": SHA, "branch_state_sha256": SHA, "unit_key": SHA,
}  # fmt: skip


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_a_version_is_what_was_written_down(spec: TableSpec) -> None:
    golden = json.loads((GOLDEN / f"{spec.name}.v{spec.version}.json").read_text(encoding="utf-8"))
    assert spec.describe() == golden, f"a changed table needs version {spec.version + 1} and golden/make_golden.py"


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_versions_are_written_down_without_a_gap(spec: TableSpec) -> None:
    written = sorted(int(path.stem.rpartition(".v")[2]) for path in GOLDEN.glob(f"{spec.name}.v*.json"))
    assert written == list(range(1, spec.version + 1))


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_keys_are_columns_and_every_column_has_a_meaning(spec: TableSpec) -> None:
    names = [column.name for column in spec.columns]
    assert len(set(names)) == len(names)
    assert set(spec.key) <= set(names)
    assert all(column.doc for column in spec.columns)


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_every_row_says_which_unit_gave_it(spec: TableSpec) -> None:
    assert spec.schema.field("unit_key").nullable is False


def test_text_is_stored_whole_however_many_lines() -> None:
    assert BREADTH_UNITS.build([UNIT]).to_pylist()[0]["native_text"] == "one\ntwo\r\n\ttab"


def test_a_prompt_without_a_difference_has_nulls_for_its_place() -> None:
    equal = {"separated": False, "first_difference": None, "first_route_position": None, "first_route_layer": None}
    assert BREADTH_UNITS.build([UNIT | equal]).column("first_difference").null_count == 1


def test_a_stage_of_a_prompt_stands_once() -> None:
    later = UNIT | {"horizon": 8}
    assert BREADTH_UNITS.build([UNIT, later]).num_rows == 2
    with pytest.raises(ValueError, match="two rows with the key"):
        BREADTH_UNITS.build([UNIT, later, UNIT])


def test_a_class_of_a_prompt_and_stage_stands_once() -> None:
    row: dict[str, Any] = {
        "prompt_id": "en-001", "horizon": 8, "structural_class": 0, "order_low": 0, "order_high": 120, "linf_moe_output": 0.5,
        "linf_post_mhc": 0.25, "moe_output_sha256": SHA, "post_mhc_sha256": SHA, "equals_native": False, "unit_key": SHA,
    }  # fmt: skip
    assert BREADTH_CLASSES.build([row, row | {"structural_class": 1}]).num_rows == 2
    with pytest.raises(ValueError, match="two rows with the key"):
        BREADTH_CLASSES.build([row, row])

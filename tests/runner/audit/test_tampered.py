"""Rows changed or left out, with every log consistent again: the ledger fails and names the claim and the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tamper import Rows, copied, rewritten, without_unit

from runner.audit import audit
from runner.run import Run
from schemas.digest import tokens_sha256
from schemas.tables import TABLES

Change = Callable[[Rows], Rows]


def first(where: Callable[[dict[str, Any]], bool], **values: Any) -> Change:
    """Give the first row of which `where` holds other values; a callable is given the old one."""

    def change(rows: Rows) -> Rows:
        for row in rows:
            if where(row):
                row |= {name: value(row[name]) if callable(value) else value for name, value in values.items()}
                break
        return rows

    return change


def drop_one(rows: Rows) -> Rows:
    return rows[1:] if len(rows) > 1 else rows


def any_row(row: dict[str, Any]) -> bool:
    return True


def other_tokens(rows: Rows) -> Rows:
    """One more than the last token, with the digest that goes with it."""
    for row in rows[-1:]:
        row["token_ids"] = [*row["token_ids"][:-1], row["token_ids"][-1] + 1]
        row["token_sha256"] = tokens_sha256(row["token_ids"])
    return rows


OTHER = "0" * 64

CASES: list[tuple[str, str, Change, str]] = [
    # (protocol, table, change, claim that must fail)
    # claims of every run
    ("persistent", "persistent_trajectories", first(any_row, token_sha256=OTHER), "persistent.digests"),
    ("canonical", "canonical_trajectories", first(any_row, text=lambda text: text.split("\n")[0][:-1]), "canonical.decoded"),
    ("replay", "replay_passes", other_tokens, "replay.decoded"),
    # a missing trajectory
    (
        "persistent",
        "persistent_trajectories",
        lambda rows: [row for row in rows if row["request_seed"] != 0],
        "persistent.trajectories",
    ),
    ("canonical", "canonical_trajectories", lambda rows: rows[:-1], "canonical.trajectories"),
    ("intermediates", "intermediate_checks", drop_one, "intermediates.schedules"),
    # pairing and drawing
    (
        "persistent",
        "persistent_trajectories",
        first(lambda row: row["scheme"] == "A" and row["schedule"] == "random", orders=lambda one: [*one[1:], one[0] ^ 1]),
        "persistent.pairing",
    ),
    (
        "persistent",
        "persistent_trajectories",
        first(lambda row: row["schedule"] == "identity", orders=lambda one: [1, *one[1:]]),
        "persistent.identity",
    ),
    ("propagation", "propagation_traces", first(any_row, orders=lambda one: [one[0] ^ 1, *one[1:]]), "propagation.drawn"),
    (
        "persistent",
        "persistent_trajectories",
        first(lambda row: row["schedule"] == "random", token_ids=lambda one: one[:-1]),
        "persistent.tokens",
    ),
    ("propagation", "propagation_traces", first(any_row, orders=lambda one: one[:-1]), "propagation.routes"),
    ("canonical", "canonical_trajectories", first(any_row, routes_compared=lambda one: one + 1), "canonical.layers"),
    # a row that is not its unit's
    ("sweep", "sweep_orders", first(any_row, prompt_id="en-3"), "sweep.meant"),
    ("breadth", "breadth_units", first(any_row, checkpoint_identity=OTHER), "breadth.meant"),
    ("post_mhc", "post_mhc_units", first(any_row, fork_layer=2), "post_mhc.meant"),
    ("event_direction", "event_direction_forks", first(any_row, fork_token=lambda one: one + 1), "event_direction.forked"),
    ("persistent_state", "persistent_state_units", first(any_row, branch_order=lambda one: one ^ 1), "persistent_state.forked"),
    ("breadth", "breadth_units", first(any_row, prompt_token_ids=lambda one: one[1:]), "breadth.encoded"),
    ("post_mhc", "post_mhc_units", first(any_row, separated=lambda one: not one), "post_mhc.decided"),
    # native replay
    ("replay", "replay_passes", first(any_row, c_moe_max_abs=2.0**-20), "replay.c_moe_max_abs"),
    ("replay", "replay_passes", first(any_row, routes=lambda one: [*one[:-1], one[-1] + 1]), "replay.routes"),
    ("replay", "replay_passes", first(any_row, c_outputs_differing=1), "replay.c_bits"),
    # the algebra of orders
    ("sweep", "sweep_orders", first(lambda row: row["scheme"] == "B", post_mhc_sha256=OTHER), "sweep.pairs"),
    ("sweep", "sweep_orders", lambda rows: [row for row in rows if row["scheme"] != "A" or row["order"]], "sweep.orders"),
    ("sweep", "sweep_orders", first(lambda row: row["first_difference"] != 4, first_difference=4), "sweep.decided"),
    ("breadth", "breadth_classes", first(any_row, order_low=lambda one: one + 1), "breadth.classes"),
    # reconstructions
    (
        "post_mhc",
        "post_mhc_checkpoints",
        first(lambda row: row["branch_sha256"] is not None, branch_sha256=OTHER),
        "post_mhc.vectors",
    ),
    ("post_mhc", "post_mhc_units", first(any_row, substituted_endpoint_sha256=OTHER), "post_mhc.endpoint"),
    ("post_mhc", "post_mhc_prefork", drop_one, "post_mhc.prefork"),
    ("post_mhc", "post_mhc_units", first(any_row, routes_equal=lambda one: one - 1), "post_mhc.summary"),
    (
        "persistent_state",
        "persistent_state_checkpoints",
        first(any_row, substituted_state_sha256=OTHER),
        "persistent_state.states",
    ),
    ("persistent_state", "persistent_state_checkpoints", drop_one, "persistent_state.routes"),
    ("persistent_state", "persistent_state_units", first(any_row, state_values=lambda one: one + 1), "persistent_state.values"),
    (
        "persistent_state",
        "persistent_state_layers",
        first(lambda row: row["layer"] == 0, branch_sha256=OTHER),
        "persistent_state.untouched",
    ),
    (
        "persistent_state",
        "persistent_state_units",
        first(any_row, branch_next_token=lambda one: one + 1),
        "persistent_state.next_token",
    ),
    # stages and sample
    ("breadth", "breadth_units", first(lambda row: row["separated"], separated=False), "breadth.decided"),
    ("breadth", "breadth_units", first(any_row, selected_class=lambda one: (one + 1) % 12), "breadth.farthest"),
    ("event_direction", "event_direction_replays", other_tokens, "event_direction.tokens"),
    (
        "event_direction",
        "event_direction_classes",
        first(lambda row: row["first_difference"] != 4, first_difference=4),
        "event_direction.decided",
    ),
    ("persistent_state", "persistent_state_checkpoints", first(any_row, route_equal=False), "persistent_state.routes"),
    ("event_direction", "event_direction_classes", lambda rows: rows[:-1], "event_direction.classes"),
    ("event_direction", "event_direction_replays", first(any_row, branch_order=lambda one: one ^ 1), "event_direction.metadata"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{place}-{one[3]}" for place, one in enumerate(CASES)])
def test_a_changed_row_with_a_consistent_log_is_found(
    study_runs: dict[str, Run], tmp_path: Path, case: tuple[str, str, Change, str]
) -> None:
    protocol, table, change, claim = case
    ledger = audit([rewritten(study_runs[protocol], tmp_path / "run", table, change)])
    failed = {line.claim: line for line in ledger.failed}
    assert claim in failed, sorted(failed)
    assert failed[claim].fault
    assert failed[claim].file.startswith(str(tmp_path))


def test_a_missing_unit_is_found_although_plan_and_log_agree(study_runs: dict[str, Run], tmp_path: Path) -> None:
    ledger = audit([without_unit(study_runs["persistent"], tmp_path / "run", "schedules")])
    failed = {line.claim for line in ledger.failed}
    assert {"persistent.units", "persistent.trajectories", "persistent.tokens"} <= failed


def test_a_damaged_file_fails_one_claim_and_leaves_the_others_open(study_runs: dict[str, Run], tmp_path: Path) -> None:
    run = copied(study_runs["canonical"], tmp_path / "run")
    path = next(run.paths.tables.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    lines = [line for line in audit([run]).entries if line.run]
    assert [line.claim for line in lines if line.verdict == "fails"] == ["canonical.verified"]
    assert {line.found for line in lines if line.verdict == "not applicable"} == {"the run cannot be read"}


def test_a_run_that_contradicts_another_is_found(study_runs: dict[str, Run], tmp_path: Path) -> None:
    change = first(lambda row: row["schedule"] == "identity", state_sha256=OTHER)
    canonical = rewritten(study_runs["canonical"], tmp_path / "run", "canonical_trajectories", change)
    failed = [line for line in audit([canonical, study_runs["persistent"]]).failed if line.claim.startswith("across_runs")]
    assert [line.claim for line in failed] == ["across_runs.identities"]
    assert str(canonical.paths.root) in failed[0].fault


@pytest.mark.parametrize("table", TABLES)
def test_a_unit_whose_rows_are_gone_is_found(study_runs: dict[str, Run], tmp_path: Path, table: str) -> None:
    run = next(run for run in study_runs.values() if table in run.store.schemas)
    ledger = audit([rewritten(run, tmp_path / "run", table, lambda rows: [])])
    assert [line.claim for line in ledger.failed if not line.claim.endswith(".verified")], table

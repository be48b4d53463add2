"""The persistent-state substitution on a random fp4fp8 checkpoint of another geometry, and on the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_runs import GEOMETRY, LAYERS, Changed, RandomRuns, dataset, submit, violations

import kernels
from runner.protocols import persistent_state_execution
from runner.protocols.persistent_state_execution import layer_records
from runner.run import Run
from schemas.errors import ConformanceFinding, InvalidInput

JOBS = Path(__file__).parents[3] / "jobs"
FORK, INPUTS = 3, 4
LATER = (INPUTS - 1) * LAYERS


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    return run.store.table("control", table).to_pylist()


def test_every_comparison_is_made_and_exact(persistent_state_run: Run) -> None:
    for row in rows(persistent_state_run, "persistent_state_units"):
        for what in ("post_mhc", "states", "routes"):
            assert (row[f"{what}_compared"], row[f"{what}_equal"]) == (LATER, LATER)
        assert (row["predictions_compared"], row["predictions_equal"]) == (INPUTS + 1, INPUTS + 1)
        assert row["fp64_layers_rebuilt"] == LAYERS
        assert row["branch_state_sha256"] == row["substituted_state_sha256"] != row["native_state_sha256"]
    assert violations(persistent_state_run) == []


def test_the_next_token_is_predicted_by_all_and_what_follows_separates(persistent_state_run: Run) -> None:
    found = rows(persistent_state_run, "persistent_state_units")
    for row in found:
        assert row["native_next_token"] == row["branch_next_token"] == row["native_token_ids"][1]
    assert any(row["separated"] and row["first_difference"] > 2 for row in found)


def test_the_layer_records_are_the_whole_state(persistent_state_run: Run) -> None:
    for row in rows(persistent_state_run, "persistent_state_units"):
        own = [one for one in rows(persistent_state_run, "persistent_state_layers") if one["prompt_id"] == row["prompt_id"]]
        assert sum(one["state_values"] for one in own) == row["state_values"]
        assert sum(one["differing_values"] for one in own) == row["differing_values"] > 0
        assert max(one["max_abs_difference"] for one in own) == row["max_abs_difference"] > 0
        assert sum(one["differing_values"] > 0 for one in own) == row["differing_layers"]
        assert row["state_values"] == _state_values(row["fork_position"])


def _state_values(position: int) -> int:
    """Reference section 11, counted here from the geometry alone."""
    g, processed = GEOMETRY, position + 1
    total = 0
    for ratio in g.compress_ratios:
        total += g.sliding_window * g.head_dim
        for width in ((g.head_dim, g.index_head_dim) if ratio == 4 else (g.head_dim,)) if ratio else ():
            overlap = 2 if ratio == 4 else 1
            total += (processed // ratio) * width + 2 * (overlap * ratio) * (overlap * width)
    return total


def test_the_fork_leaves_the_state_of_its_own_and_earlier_layers_alone(persistent_state_run: Run) -> None:
    for row in rows(persistent_state_run, "persistent_state_layers"):
        if row["layer"] <= FORK:
            assert row["differing_values"] == 0
            assert row["native_sha256"] == row["branch_sha256"]


def test_records_of_layers_lie_side_by_side(random_runs: RandomRuns) -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    state = decoder.new_state()
    decoder.step([kernels.Row(state, [5, 6, 7])])
    records = layer_records(state, LAYERS)
    assert [record.start for record in records] == [0, *(record.stop for record in records[:-1])]
    assert records[-1].stop == state.value_count()


@pytest.mark.parametrize(
    ("table", "column", "value", "line"),
    [
        ("persistent_state_units", "states_equal", 1, "states: 1 of"),
        ("persistent_state_units", "branch_next_token", 0, "the executions predict different tokens at the boundary"),
        ("persistent_state_units", "substituted_state_sha256", "0" * 64, "the substituted state is not the branch's"),
        ("persistent_state_layers", "differing_values", 1, "layer 0, not after the fork's, has 1 differing values"),
        ("persistent_state_layers", "fp64_rebuilt", False, "layer 0: the FP64 difference does not rebuild it"),
        ("persistent_state_layers", "state_values", 1, "6 layer records with"),
        ("persistent_state_checkpoints", "post_mhc_linf", 0.5, "position 14, layer 0: the post-mHC states differ"),
        ("persistent_state_checkpoints", "state_differing_values", 1, "position 14, layer 0: the persistent states differ"),
        ("persistent_state_checkpoints", "branch_experts", [0, 1, 2, 3], "position 14, layer 0: the routes differ"),
    ],
)
def test_a_row_that_differs_is_a_violation(persistent_state_run: Run, table: str, column: str, value: Any, line: str) -> None:
    found = violations(persistent_state_run, Changed(persistent_state_run, table, column, value))
    assert any(one.startswith(f"en-1: {line}") for one in found), found


def test_a_wrong_delta_is_caught_by_the_check_after_the_addition(
    random_runs: RandomRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference of one value is off by a 1024th when it is added, after it was found to be right."""
    right = persistent_state_execution._require_refusal

    def then_wrong(state: kernels.State, boundary: Any, where: str, *, expected: bool) -> None:
        right(state, boundary, where, expected=expected)
        boundary.wide[np.abs(boundary.wide).argmax()] *= 1 + 1 / 1024

    monkeypatch.setattr(persistent_state_execution, "_require_refusal", then_wrong)
    job = random_runs.job("wrong-state", {"protocol": "persistent_state", "fork": {"layer": FORK}, "decode_inputs": 2})
    with pytest.raises(ConformanceFinding, match="layer 3, position 13"):
        submit(job, random_runs.folder / "wrong-state" / "run")


def test_a_state_that_is_not_native_is_caught_by_the_check_before_the_addition(
    random_runs: RandomRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = persistent_state_execution._require_refusal

    def then_other(state: kernels.State, boundary: Any, where: str, *, expected: bool) -> None:
        right(state, boundary, where, expected=expected)
        boundary.native.view(np.uint32)[0] ^= 1

    monkeypatch.setattr(persistent_state_execution, "_require_refusal", then_other)
    job = random_runs.job("other-state", {"protocol": "persistent_state", "fork": {"layer": FORK}, "decode_inputs": 2})
    with pytest.raises(ConformanceFinding, match="layer 3, position 13"):
        submit(job, random_runs.folder / "other-state" / "run")


def test_a_run_again_gives_the_same_bytes(random_runs: RandomRuns, persistent_state_run: Run, tmp_path: Path) -> None:
    again = submit(random_runs.folder / "persistent_state" / "job.yaml", tmp_path / "again")
    assert dataset(again) == dataset(persistent_state_run)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("fork.layer=5", "fork.layer: found 5, allowed: less than 5, the last"),
        ("fork.layer=6", "fork.layer: found 6, allowed: 0..5"),
        ("fork.structural_class=12", "fork.structural_class: found 12, allowed: 0..11"),
        ("decode_inputs=1", "decode_inputs: found 1, allowed: an integer 2..4096"),
    ],
)
def test_a_job_that_cannot_run_is_refused_before_anything_runs(random_runs: RandomRuns, override: str, line: str) -> None:
    job = random_runs.job("refused-state", {"protocol": "persistent_state", "fork": {"layer": FORK}})
    with pytest.raises(InvalidInput) as caught:
        submit(job, random_runs.folder / "refused-state" / "run", [override])
    assert line in str(caught.value)


def test_the_shipped_job_holds_on_the_embedded_checkpoint_and_shows_a_difference(tmp_path: Path) -> None:
    run = submit(JOBS / "persistent_state.yaml", tmp_path / "run")
    found = rows(run, "persistent_state_units")
    assert violations(run) == []
    for row in found:
        later = (row["decode_inputs"] - 1) * row["layers"]
        assert (row["post_mhc_equal"], row["states_equal"], row["routes_equal"]) == (later, later, later)
    assert any(row["separated"] for row in found)

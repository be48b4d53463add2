"""The post-mHC substitution on a random fp4fp8 checkpoint of another geometry, and on the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from random_runs import LAYERS, Changed, RandomRuns, dataset, submit, violations

import kernels
from runner.protocols.post_mhc_execution import vectors_compared
from runner.run import Run
from schemas.errors import ConformanceFinding, InvalidInput

JOBS = Path(__file__).parents[3] / "jobs"
FORK, INPUTS = 3, 4


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    return run.store.table("control", table).to_pylist()


def test_the_formulas_give_the_studys_counts_on_43_layers() -> None:
    layers, fork, inputs = 43, 5, 8
    assert vectors_compared(layers, fork, inputs) == 339
    assert inputs * layers == 344


def test_every_comparison_is_made_and_exact(post_mhc_run: Run) -> None:
    for row in rows(post_mhc_run, "post_mhc_units"):
        assert (row["prefork_compared"], row["prefork_equal"]) == (FORK, FORK)
        compared = (LAYERS - FORK) + (INPUTS - 1) * LAYERS
        assert (row["vectors_compared"], row["vectors_equal"]) == (compared, compared)
        assert (row["routes_compared"], row["routes_equal"]) == (INPUTS * LAYERS, INPUTS * LAYERS)
        assert (row["predictions_compared"], row["predictions_equal"]) == (INPUTS + 1, INPUTS + 1)
        assert row["branch_endpoint_sha256"] == row["substituted_endpoint_sha256"] != row["native_endpoint_sha256"]
        assert row["branch_text"] == row["substituted_text"]
    assert violations(post_mhc_run) == []


def test_the_control_shows_a_real_difference(post_mhc_run: Run) -> None:
    separated = [row for row in rows(post_mhc_run, "post_mhc_units") if row["separated"]]
    assert separated
    for row in separated:
        at = row["first_difference"] - 1
        assert row["native_token_ids"][:at] == row["branch_token_ids"][:at]
        assert row["native_token_ids"][at] != row["branch_token_ids"][at]


def test_what_lies_before_the_endpoint_is_compared_with_native_and_nothing_else(post_mhc_run: Run) -> None:
    for row in rows(post_mhc_run, "post_mhc_checkpoints"):
        before = row["decode_input"] == 1 and row["layer"] < FORK
        assert (row["branch_sha256"] is None) == before


@pytest.mark.parametrize(
    ("table", "column", "value", "line"),
    [
        ("post_mhc_units", "vectors_equal", 0, "vectors: 0 of"),
        ("post_mhc_units", "routes_compared", 1, "routes: 1 compared instead of"),
        ("post_mhc_units", "reconstruction_linf", 0.5, "the substituted endpoint is not the branch's"),
        ("post_mhc_prefork", "native_sha256", "0" * 64, "layer 0 before the fork differs"),
        ("post_mhc_prefork", "linf", 0.5, "layer 0 before the fork differs"),
        ("post_mhc_checkpoints", "substituted_experts", [0, 1, 2, 3], "position 13, layer 0: the routes differ"),
        ("post_mhc_checkpoints", "substituted_sha256", "0" * 64, "position 13, layer 0: the post-mHC states differ"),
    ],
)
def test_a_row_that_differs_is_a_violation(post_mhc_run: Run, table: str, column: str, value: Any, line: str) -> None:
    found = violations(post_mhc_run, Changed(post_mhc_run, table, column, value))
    assert any(one.startswith(f"en-1: {line}") for one in found), found


@pytest.mark.parametrize("nudged", ["delta", "before", "after"])
def test_a_wrong_delta_is_caught_by_the_checks_before_and_after(
    random_runs: RandomRuns, monkeypatch: pytest.MonkeyPatch, nudged: str
) -> None:
    """One value of 640 is off by its last bit."""
    right = kernels.PostMhcDelta

    def wrong(layer: int, delta: Any, before: Any, after: Any) -> kernels.PostMhcDelta:
        arrays = {"delta": delta.copy(), "before": before.copy(), "after": after.copy()}
        place = abs(before).argmax()  # not a zero, to which the smallest number can be added without effect
        if nudged == "delta":
            arrays["delta"].flat[place] += abs(before.flat[place]) / 1024
        else:
            arrays[nudged].view("uint32").flat[place] ^= 1
        return right(layer, arrays["delta"], arrays["before"], arrays["after"])

    monkeypatch.setattr(kernels, "PostMhcDelta", wrong)
    job = random_runs.job(f"wrong-{nudged}", {"protocol": "post_mhc", "fork": {"layer": FORK}, "decode_inputs": 1})
    with pytest.raises(ConformanceFinding, match="layer 3, position"):
        submit(job, random_runs.folder / f"wrong-{nudged}" / "run")


def test_a_named_class_is_the_branch(random_runs: RandomRuns) -> None:
    content = {"protocol": "post_mhc", "fork": {"layer": FORK, "structural_class": 11}, "decode_inputs": 2}
    run = random_runs.run("named", content)
    assert {(row["structural_class"], row["chosen_by"]) for row in rows(run, "post_mhc_units")} == {(11, "named")}


def test_a_run_again_gives_the_same_bytes(random_runs: RandomRuns, post_mhc_run: Run, tmp_path: Path) -> None:
    again = submit(random_runs.folder / "post_mhc" / "job.yaml", tmp_path / "again")
    assert dataset(again) == dataset(post_mhc_run)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("fork.layer=6", "fork.layer: found 6, allowed: 0..5, the layers of checkpoint"),
        ("fork.structural_class=12", "fork.structural_class: found 12, allowed: 0..11, the classes of 4 experts a token"),
        ("decode_inputs=4000", "decode_inputs: found 4001 after the 13 tokens of prompt en-1, allowed:"),
        ("numerics=fp32", "numerics: found fp32, allowed: official"),
        ("fork.select=farthest", "fork.select: found 'farthest', allowed: first_separating"),
        ("decode_inputs=0", "decode_inputs: found 0, allowed: an integer 1..4096"),
    ],
)
def test_a_job_that_cannot_run_is_refused_before_anything_runs(random_runs: RandomRuns, override: str, line: str) -> None:
    job = random_runs.job("refused", {"protocol": "post_mhc", "fork": {"layer": FORK}})
    with pytest.raises(InvalidInput) as caught:
        submit(job, random_runs.folder / "refused" / "run", [override])
    assert line in str(caught.value)


def test_the_shipped_job_holds_on_the_embedded_checkpoint_and_shows_a_difference(tmp_path: Path) -> None:
    run = submit(JOBS / "post_mhc.yaml", tmp_path / "run")
    found = rows(run, "post_mhc_units")
    assert violations(run) == []
    for row in found:
        layers, fork, inputs = row["layers"], row["fork_layer"], row["decode_inputs"]
        assert (row["prefork_equal"], row["routes_equal"], row["predictions_equal"]) == (fork, inputs * layers, inputs + 1)
        assert row["vectors_equal"] == vectors_compared(layers, fork, inputs)
    assert any(row["separated"] for row in found)

"""Intermediate values under schedules: what is compared, counted and found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_runs import LAYERS, Changed, RandomRuns, violations
from small_jobs import JOBS, rows, small_run

import kernels
from runner.run import Run


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "intermediates")


@pytest.fixture
def of_b(random_runs: RandomRuns) -> Run:
    return random_runs.run("intermediates-b", JOBS["intermediates"] | {"scheme": "B", "request_seeds": 2})


def test_every_schedule_is_there_and_nothing_is_missing(run: Run) -> None:
    assert [(row["prompt_id"], row["request_seed"]) for row in rows(run)] == [
        (prompt, seed) for prompt in ("en-1", "en-2") for seed in range(5)
    ]
    for row in rows(run):
        assert row["records_missing"] == 0
        assert row["records_expected"] == row["positions"] * (3 * LAYERS - 1 + 1)


def test_schedules_are_those_of_the_persistent_protocol(random_runs: RandomRuns, run: Run) -> None:
    persistent = {
        (row["prompt_id"], row["request_seed"]): row["orders"]
        for row in rows(small_run(random_runs, "persistent"), ["schedules"])
    }
    assert all(persistent[row["prompt_id"], row["request_seed"]] == row["orders"] for row in rows(run))


def test_differences_of_b_are_those_of_two_decodes(random_runs: RandomRuns, of_b: Run) -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    row = rows(of_b)[1]
    prompt = rows(small_run(random_runs, "canonical"))[0]["prompt_token_ids"]
    aggregation = {layer: ("B", order) for layer, order in enumerate(row["orders"])}
    names = ["moe_output", "post_mhc", "router_scores", "logits"]
    native, candidate = (
        decoder.step([kernels.Row(decoder.new_state(), prompt, kernels.Intervention(aggregation=its, capture=names))])[0].captures
        for its in ({}, aggregation)
    )
    differences = {name: np.abs(candidate[name] - native[name]) for name in names}
    differences["router_scores"] = differences["router_scores"][:, 1:]
    assert row["moe_linf"] == differences["moe_output"].max()
    assert row["post_mhc_linf"] == differences["post_mhc"].max()
    assert row["router_linf"] == differences["router_scores"].max()
    assert row["logits_linf"] == differences["logits"].max()
    assert row["moe_differing"] == np.count_nonzero(differences["moe_output"].max(axis=-1))
    assert row["post_mhc_differing"] == np.count_nonzero(differences["post_mhc"].max(axis=(-1, -2)))
    assert row["bitwise_equal"] is False


def test_equal_is_what_has_no_difference(run: Run, of_b: Run) -> None:
    kinds = ("moe", "post_mhc", "router", "logits")
    for row in (*rows(run), *rows(of_b)):
        assert row["bitwise_equal"] == (not any(row[f"{kind}_differing"] for kind in kinds))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("records_missing", 3, "en-1, scheme B, request seed 0: 3 of"),
        ("orders", [0] * LAYERS, "en-1, scheme B, request seed 0: the schedule is not the one"),
        ("moe_differing", 0, "en-1, scheme B, request seed 0: moe_linf"),
    ],
)
def test_a_broken_check_is_a_violation(of_b: Run, column: str, value: Any, said: str) -> None:
    [line] = violations(of_b, Changed(of_b, "intermediate_checks", column, value))
    assert line.startswith(said)


def test_order_invariance_is_measured_and_not_required(of_b: Run) -> None:
    assert not any(row["bitwise_equal"] for row in rows(of_b))
    assert violations(of_b) == []

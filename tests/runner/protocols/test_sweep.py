"""The sweep: every order once, the algebra of classes, states executed once, and that a contradiction is found."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from random_runs import CLASSES, Changed, RandomRuns, violations
from small_jobs import JOBS, rows, small_run

import kernels
from runner.protocols.sweep import found_orders
from runner.run import Run

ORDERS = math.factorial(4)


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "sweep")


def orders(run: Run) -> list[dict[str, Any]]:
    return rows(run, table="sweep_orders")


def test_every_order_of_both_schemes_is_there_once(run: Run) -> None:
    found = found_orders(run.store)
    assert list(found) == [(prompt, scheme) for prompt in ("en-1", "en-2") for scheme in ("A", "B")]
    assert all([row["order"] for row in of_scheme] == list(range(ORDERS)) for of_scheme in found.values())


def test_classes_are_pairs_of_equal_results_under_b_only(run: Run) -> None:
    pairs = kernels.structural_classes(4)
    for (_, scheme), of_scheme in found_orders(run.store).items():
        if scheme == "A":
            assert all(row["structural_class"] is None for row in of_scheme)
            continue
        for number, (low, high) in enumerate(pairs):
            assert of_scheme[low]["structural_class"] == of_scheme[high]["structural_class"] == number
            assert of_scheme[low]["moe_output_sha256"] == of_scheme[high]["moe_output_sha256"]
            assert of_scheme[low]["token_ids"] == of_scheme[high]["token_ids"]


def test_units_find_one_fork(run: Run) -> None:
    forks = rows(run, table="sweep_forks")
    assert {row["first_branch"] for row in forks if row["scheme"] == "A"} == {0, 7, 14, 21}
    assert len({(row["prompt_id"], row["native_post_mhc_sha256"], row["fork_position"]) for row in forks}) == 2


def test_equal_states_are_executed_once(run: Run) -> None:
    for fork in rows(run, ["branches"], "sweep_forks"):
        of_unit = [row for row in orders(run) if row["unit_key"] == fork["unit_key"]]
        fresh = {row["post_mhc_sha256"] for row in of_unit if not row["equals_native"]}
        assert fork["executed"] == len(fresh)
        assert len(of_unit) == fork["branches"] * (2 if fork["scheme"] == "B" else 1)


def test_a_row_is_what_the_decoder_gives_for_its_order(random_runs: RandomRuns, run: Run) -> None:
    """Each order on its own, from the prompt on: nothing shared, nothing expanded."""
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    fork = next(row for row in rows(run, ["native"], "sweep_forks") if row["prompt_id"] == "en-1")
    for row in [row for row in orders(run) if row["prompt_id"] == "en-1"][::5]:
        state = decoder.new_state()
        tokens = [decoder.step([kernels.Row(state, fork["prompt_token_ids"])])[0].token]
        intervention = kernels.Intervention(aggregation={3: (row["scheme"], row["order"])})
        for ordinal in range(1, 4):
            changed = intervention if ordinal == 1 else kernels.Intervention()
            tokens.append(decoder.step([kernels.Row(state, tokens[-1:], changed)])[0].token)
        assert row["token_ids"] == tokens


def test_scheme_c_in_all_orders_executes_no_state_that_is_native(random_runs: RandomRuns) -> None:
    run = random_runs.run("sweep-c", JOBS["sweep"] | {"schemes": ["C"], "block": 24})
    for fork in rows(run, ["branches"], "sweep_forks"):
        of_prompt = [row for row in rows(run, table="sweep_orders") if row["prompt_id"] == fork["prompt_id"]]
        native = [row for row in of_prompt if row["equals_native"]]
        assert native, "scheme C in native order gives the native state"
        assert all(row["token_ids"] == fork["native_token_ids"] for row in native)
        assert fork["executed"] == len({row["post_mhc_sha256"] for row in of_prompt} - {fork["native_post_mhc_sha256"]})


def of_b(row: Any) -> bool:
    return bool(row["scheme"] == "B")


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("moe_output_sha256", "0" * 64, "en-1, scheme B: class 0: its two orders give different results"),
        ("structural_class", 5, "en-1, scheme B: order 0 in class 5 instead of 0"),
        ("order", 99, "en-1, scheme B: an order that is no permutation of 4 terms"),
        ("token_ids", [1], "en-1, scheme B, order 0: 1 generated tokens instead of 4"),
    ],
)
def test_a_broken_class_is_a_violation(run: Run, column: str, value: Any, said: str) -> None:
    assert said in violations(run, Changed(run, "sweep_orders", column, value, of_b))


def test_equal_states_with_different_futures_are_a_violation(run: Run) -> None:
    lines = violations(run, Changed(run, "sweep_orders", "routes_sha256", "0" * 64, of_b))
    assert any("share a post-mHC state and differ in routes_sha256" in line for line in lines)


def test_an_order_of_no_fork_is_a_violation(run: Run) -> None:
    lines = violations(run, Changed(run, "sweep_orders", "prompt_id", "en-9", of_b))
    assert "en-9, scheme B: 1 orders of a prompt whose fork has no row" in lines


def test_a_unit_that_found_another_fork_is_a_violation(run: Run) -> None:
    changed = Changed(run, "sweep_forks", "native_token_ids", [1, 2, 3, 4], lambda row: row["first_branch"] == 7)
    [line] = violations(run, changed)
    assert line == "en-1, scheme A, branches from 7: another fork than the prompt's first unit found: native_token_ids"


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("A", ["en-1, scheme A, branches from 0: 6 orders instead of 7"]),
        ("B", ["en-1, scheme B, branches from 0: 13 orders instead of 14", "en-1, scheme B: class 3 with 1 orders"]),
    ],
)
def test_a_missing_order_is_a_violation(run: Run, scheme: str, said: list[str]) -> None:
    class Without:
        """Order 3 of the scheme gone."""

        def table(self, stage: str, table: str) -> pa.Table:
            found = run.store.table(stage, table)
            gone = ("en-1", scheme, 3)
            kept = [row for row in found.to_pylist() if (row["prompt_id"], row["scheme"], row.get("order")) != gone]
            return pa.Table.from_pylist(kept, schema=found.schema)

    assert violations(run, Without()) == said


def test_the_study_counts_hold_on_the_embedded_geometry(random_runs: RandomRuns) -> None:
    """Six experts a token: 720 orders of A; 720 of B in 360 classes (study 2.6). The shortest horizon that shows a branch."""
    run = random_runs.run(
        "sweep-embedded", {"protocol": "sweep", "checkpoint": "builtin", "horizon": 2, "block": 360}, catalog=ONE_PROMPT
    )
    found = found_orders(run.store)
    assert [len(found["en-1", scheme]) for scheme in ("A", "B")] == [720, 720]
    assert len({row["structural_class"] for row in found["en-1", "B"]}) == 360
    assert len({row["moe_output_sha256"] for row in found["en-1", "B"]}) <= 360
    assert violations(run) == []


ONE_PROMPT = "prompt_id\tlanguage\tkind\ttext\nen-1\ten\tordinary\twhy the sheep\n"


def test_b_has_half_as_many_branches(run: Run) -> None:
    assert CLASSES == ORDERS // 2
    report = run.protocol.report(run.experiment, run.store)[0]
    assert [(row[1], row[2], row[3]) for row in report.rows[:2]] == [("A", ORDERS, ORDERS), ("B", ORDERS, CLASSES)]

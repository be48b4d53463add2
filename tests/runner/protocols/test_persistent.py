"""Persistent schedules: completeness, pairing over schemes, and both references; and the canonical protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from random_runs import LAYERS, Changed, RandomRuns, violations
from small_jobs import rows, small_run

import kernels
from runner.protocol import Experiment
from runner.protocols.orders import draw_schedule
from runner.run import Run

SCHEMES = ["P32", "C", "A", "B"]


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "persistent")


@pytest.fixture
def canonical(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "canonical")


def test_every_trajectory_is_there_with_its_tokens(run: Run) -> None:
    found = [(row["prompt_id"], row["request_seed"], row["scheme"]) for row in rows(run, ["schedules"])]
    assert found == [(prompt, seed, scheme) for prompt in ("en-1", "en-2") for seed in range(5) for scheme in SCHEMES]
    assert all(len(row["token_ids"]) == 4 for row in rows(run))


def test_all_schemes_of_a_request_have_its_drawn_schedule(run: Run) -> None:
    for row in rows(run, ["schedules"]):
        assert tuple(row["orders"]) == draw_schedule(20260722, row["prompt_id"], row["request_seed"], LAYERS, 4)


def test_native_and_every_identity_order_are_references_and_not_counted(run: Run) -> None:
    found = [(row["scheme"], row["schedule"], row["request_seed"]) for row in rows(run, ["references"])[:5]]
    assert found == [("native", "native", None), *((scheme, "identity", None) for scheme in SCHEMES)]


def test_a_row_is_what_the_decoder_gives_for_its_schedule(random_runs: RandomRuns, run: Run) -> None:
    """Alone in its batch and token by token."""
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    for row in rows(run)[::7]:
        aggregation = {layer: (row["scheme"], order) for layer, order in enumerate(row["orders"])}
        intervention, state = kernels.Intervention(aggregation=aggregation), decoder.new_state()
        for token in row["prompt_token_ids"]:
            (result,) = decoder.step([kernels.Row(state, [token], intervention)])
        tokens = [result.token]
        while len(tokens) < 4:
            tokens.append(decoder.step([kernels.Row(state, tokens[-1:], intervention)])[0].token)
        assert row["token_ids"] == tokens
        assert row["state_sha256"] == state.sha256()


def test_the_canonical_protocol_gives_the_same_references(run: Run, canonical: Run) -> None:
    def of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "unit_key"} for row in rows]

    assert of(rows(canonical)) == of(rows(run, ["references"]))


def test_another_experiment_seed_draws_other_schedules(random_runs: RandomRuns, run: Run) -> None:
    other = random_runs.run(
        "persistent-seed", {"protocol": "persistent", "request_seeds": 1, "horizon": 1, "schemes": ["B"], "experiment_seed": 1}
    )
    assert rows(other, ["schedules"])[0]["orders"] != rows(run, ["schedules"])[0]["orders"]
    assert violations(other) == []


def test_the_seed_stands_in_the_keys_of_what_is_drawn_only(run: Run) -> None:
    job = run.experiment.job
    other = replace(run.experiment, job=job.model_copy(update={"experiment_seed": job.experiment_seed + 1}))

    def keys(experiment: Experiment, stage: str) -> list[str]:
        return [unit.key for unit in run.protocol.units(experiment, stage, run.store)]

    assert keys(other, "references") == keys(run.experiment, "references")
    assert not set(keys(other, "schedules")) & set(keys(run.experiment, "schedules"))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("orders", [0] * LAYERS, "en-1, scheme P32, request seed 0: the schedule is not the one that the generator draws for it"),
        ("token_ids", [1, 2], "en-1, scheme P32, random schedule: 2 generated tokens instead of 4"),
        ("scheme", "B", "en-1, request seed 0: schemes ['B', 'C', 'A', 'B'] instead of ['P32', 'C', 'A', 'B']"),
    ],
)
def test_a_broken_trajectory_is_a_violation(run: Run, column: str, value: Any, said: str) -> None:
    changed = Changed(run, "persistent_trajectories", column, value, lambda row: row["schedule"] == "random")
    assert said in violations(run, changed)


@pytest.mark.parametrize("protocol", ["persistent", "canonical"])
def test_a_reference_in_another_order_is_a_violation(random_runs: RandomRuns, protocol: str) -> None:
    run = small_run(random_runs, protocol)
    table = f"{protocol}_trajectories"
    changed = Changed(run, table, "orders", [1] * LAYERS, lambda row: row["schedule"] == "identity")
    assert violations(run, changed) == ["en-1, scheme P32: a reference in another order than the identity"]


def test_a_missing_reference_is_a_violation(canonical: Run) -> None:
    changed = Changed(canonical, "canonical_trajectories", "prompt_id", "en-2", lambda row: row["scheme"] == "A")
    assert any("references" in line and "instead of" in line for line in violations(canonical, changed))

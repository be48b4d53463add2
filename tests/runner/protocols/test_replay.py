"""Native replay: what is compared, and that a difference is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_runs import GEOMETRY, LAYERS, Changed, RandomRuns, violations
from small_jobs import rows, small_run

import kernels
from actors.tokenizer import CheckpointTokenizer
from runner.protocols.replay import REPEATED
from runner.protocols.replay_execution import NativeOrderC
from runner.run import Run


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "replay")


def test_both_executions_of_every_prompt_are_there(run: Run) -> None:
    told = [(row["prompt_id"], row["execution"], row["chunk"]) for row in rows(run)]
    assert told == [(prompt, how, chunk) for how, chunk in (("reference", None), ("replay", 2)) for prompt in ("en-1", "en-2")]


def test_every_position_and_layer_is_compared(run: Run) -> None:
    for row in rows(run):
        positions = len(row["prompt_token_ids"]) + 4 - 1  # the last token is not processed
        assert row["positions"] == positions
        assert row["c_outputs_compared"] == positions * LAYERS
        assert len(row["routes"]) == positions * LAYERS * 4


def test_the_text_is_that_of_the_tokens(run: Run, random_runs: RandomRuns) -> None:
    tokenizer = CheckpointTokenizer(str(random_runs.checkpoint), checkpoint_vocab_size=GEOMETRY.vocab_size)
    assert all(row["text"] == tokenizer.decode(row["token_ids"]) for row in rows(run))


CHANGES: dict[str, Any] = {
    "token_ids": [1, 2, 3, 4],
    "text": "another",
    "routes": [0],
    "routes_sha256": "0" * 64,
    "logits_sha256": "0" * 64,
    "state_sha256": "0" * 64,
}


@pytest.mark.parametrize("column", CHANGES)
def test_a_replay_that_differs_is_a_violation(run: Run, column: str) -> None:
    assert column in REPEATED
    changed = Changed(run, "replay_passes", column, CHANGES[column], lambda row: row["execution"] == "replay")
    assert violations(run, changed) == [f"en-1: the replay differs from the reference pass in {column}"]


@pytest.mark.parametrize(("column", "value"), [("c_moe_max_abs", 2.0**-9), ("c_outputs_differing", 1)])
def test_a_difference_of_scheme_c_is_a_violation(run: Run, column: str, value: float) -> None:
    [first, *_] = violations(run, Changed(run, "replay_passes", column, value))
    assert first.startswith("en-1, reference: scheme C in native order differs from native in")


def test_too_few_tokens_are_a_violation(run: Run) -> None:
    changed = Changed(run, "replay_passes", "token_ids", [1], lambda row: row["execution"] == "reference")
    assert "en-1, reference: 1 generated tokens instead of 4" in violations(run, changed)


def test_a_wrong_output_is_counted_by_scheme_c(random_runs: RandomRuns) -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    capture = kernels.Intervention(capture=["route", "moe_terms", "moe_shared", "moe_output"])
    (result,) = decoder.step([kernels.Row(decoder.new_state(), [5, 6], capture)])
    captures = {name: np.array(values) for name, values in result.captures.items()}
    captures["moe_output"][1, 2, 3] += 1

    class Wrong:
        def __init__(self, captures: dict[str, np.ndarray]) -> None:
            self.captures = captures

    found = NativeOrderC()
    found.add(Wrong(captures))  # type: ignore[arg-type]
    assert (found.compared, found.differing) == (2 * LAYERS, 1)
    assert found.max_abs == pytest.approx(1.0)

"""The representative trace: what each of its columns says, against two decodes; its lines, from a row written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_runs import LAYERS, Changed, RandomRuns, violations
from small_jobs import rows, small_run

import kernels
from runner.protocols.orders import draw_schedule
from runner.protocols.propagation import trace_lines
from runner.run import Run


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "propagation")


def test_a_trace_is_what_two_decodes_give(random_runs: RandomRuns, run: Run) -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(random_runs.checkpoint))
    row = rows(run)[0]
    prompt = rows(small_run(random_runs, "canonical"))[0]["prompt_token_ids"]
    orders = draw_schedule(20260722, "en-1", 3, LAYERS, 4)
    names = ["moe_output", "post_mhc", "router_scores", "route", "router_margin", "logit_margin"]
    native, candidate = (
        decoder.step([kernels.Row(decoder.new_state(), prompt, kernels.Intervention(aggregation=its, capture=names))])[0]
        for its in ({}, {layer: ("B", order) for layer, order in enumerate(orders)})
    )
    last = len(prompt) - 1
    assert (row["position"], row["orders"]) == (last, list(orders))

    def linf(name: str, layer: int) -> float:
        return float(np.abs(candidate.captures[name][last, layer] - native.captures[name][last, layer]).max())

    assert row["moe_linf"] == linf("moe_output", 1)
    assert row["post_mhc_linf"] == linf("post_mhc", 1)
    assert row["router_linf"] == linf("router_scores", 2)
    assert row["logits_linf"] == float(np.abs(candidate.logits - native.logits).max())
    assert row["candidate_experts"] == sorted(candidate.captures["route"][last, 2].tolist())
    assert row["native_router_margin"] == native.captures["router_margin"][last, 2]
    assert row["candidate_logit_margin"] == candidate.captures["logit_margin"][last]
    assert (row["native_token_ids"][0], row["candidate_token_ids"][0]) == (native.token, candidate.token)


def test_the_candidate_is_the_persistent_trajectory_of_its_condition(random_runs: RandomRuns, run: Run) -> None:
    condition = {"prompt_id": "en-1", "scheme": "B", "request_seed": 3}
    trajectories = rows(small_run(random_runs, "persistent"))
    [persistent] = [row for row in trajectories if condition.items() <= row.items()]
    row = rows(run)[0]
    assert row["candidate_token_ids"] == persistent["token_ids"]
    assert row["candidate_routes_sha256"] == persistent["routes_sha256"]
    assert row["native_token_ids"] == trajectories[0]["token_ids"]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("orders", [0] * LAYERS, "the schedule is not the one"),
        ("candidate_token_ids", [1], "en-1: 1 candidate tokens instead of 4"),
    ],
)
def test_a_broken_trace_is_a_violation(run: Run, column: str, value: Any, said: str) -> None:
    [line] = violations(run, Changed(run, "propagation_traces", column, value))
    assert said in line


def test_a_difference_of_equal_bits_is_a_violation(run: Run) -> None:
    same = rows(run)[0]["native_moe_output_sha256"]
    [line] = violations(run, Changed(run, "propagation_traces", "candidate_moe_output_sha256", same))
    assert line.startswith("en-1: moe_linf")
    assert line.endswith("with equal digests")


STUDY: dict[str, Any] = {
    "prompt_id": "en-1", "scheme": "B", "request_seed": 0, "position": 2, "output_layer": 2, "router_layer": 3,
    "native_moe_output_sha256": "a" * 64, "candidate_moe_output_sha256": "b" * 64, "moe_linf": np.float32(0.0375366211),
    "native_post_mhc_sha256": "c" * 64, "candidate_post_mhc_sha256": "c" * 64, "post_mhc_linf": 0.0,
    "native_experts": [44, 93, 172, 174, 202, 225], "candidate_experts": [44, 93, 143, 172, 174, 202],
    "native_router_margin": 0.5, "candidate_router_margin": 0.25, "router_linf": 0.125,
    "native_logit_margin": 0.5, "candidate_logit_margin": 0.25, "logits_linf": 0.625,
    "native_token_ids": [477, 1, 2, 3, 11885], "candidate_token_ids": [477, 1, 2, 3, 5477], "first_difference": 5,
    "native_text": "are not in the fold.\nThe sheep", "candidate_text": "are not in the pen.", "native_routes_sha256": "d" * 64,
    "candidate_routes_sha256": "e" * 64, "first_route_position": 2, "first_route_layer": 3, "routes_compared": 344,
    "routes_differing": 20,
}  # fmt: skip
"""What study 3.2.1 has, as far as it tells."""


def test_the_lines_are_those_of_the_study() -> None:
    lines = {line["stage"]: line for line in trace_lines(STUDY)}
    assert lines["layer-2 MoE output"]["difference"] == "not bitwise equal; max L-inf 0.03753662"
    assert lines["layer-2 post-mHC state"]["difference"] == "bitwise equal"
    assert lines["layer-3 router"]["difference"] == "score max L-inf 0.125; enter {143}, leave {225}"
    assert lines["logits after the prompt"]["native"] == "argmax 477, margin 0.5"
    assert lines["first changed generated token"]["candidate"] == "ordinal 5: token 5477"
    assert lines["first changed generated token"]["difference"] == "the first 4 generated token IDs agree"
    assert lines["continuation"]["native"] == "are not in the fold.\nThe sheep"


def test_equal_continuations_have_no_changed_token() -> None:
    lines = {line["stage"]: line for line in trace_lines(STUDY | {"first_difference": None})}
    assert lines["first changed generated token"]["native"] == "none"
    assert lines["first changed generated token"]["difference"] == "all generated token IDs agree"

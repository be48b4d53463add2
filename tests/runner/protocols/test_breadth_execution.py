from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from breadth_runs import FRIEND, LIGHT, SHEEP, first_units, unit_row

import kernels
from actors.executor import Session
from runner.protocols.breadth import execute
from schemas.digest import floats_sha256, tokens_sha256
from schemas.errors import ConformanceFinding, InvalidInput
from schemas.unit import UnitResult

HORIZON = 6
LAYER = 5


@pytest.fixture(scope="module")
def results(session: Session) -> list[UnitResult]:
    return execute(session, first_units(session, SHEEP, LIGHT, FRIEND, horizons=(HORIZON,)))


def greedy(session: Session, text: str, branch: int | None = None) -> tuple[list[int], kernels.State]:
    """HORIZON tokens, a token a step, one state alone: nothing of what execute shares or batches."""
    state = session.decoder.new_state()
    for token in session.tokenizer.encode(text):
        (last,) = session.decoder.step([kernels.Row(state, [token])])
    tokens = [last.token]
    while len(tokens) < HORIZON:
        forked = branch is not None and len(tokens) == 1
        intervention = kernels.Intervention(aggregation={LAYER: ("B", branch)}) if forked else None
        (last,) = session.decoder.step([kernels.Row(state, tokens[-1:], intervention)])
        tokens.append(last.token)
    return tokens, state


@pytest.mark.parametrize("index", [0, 1, 2])
def test_both_continuations_are_those_of_a_lone_decoder(session: Session, results: list[UnitResult], index: int) -> None:
    row = unit_row(results[index])
    text = (SHEEP, LIGHT, FRIEND)[index].text
    native, native_state = greedy(session, text)
    branch, branch_state = greedy(session, text, row["selected_order"])
    assert (row["native_token_ids"], row["branch_token_ids"]) == (native, branch)
    assert (row["native_state_sha256"], row["branch_state_sha256"]) == (native_state.sha256(), branch_state.sha256())
    assert row["state_position"] == native_state.position == len(row["prompt_token_ids"]) + HORIZON - 1


def test_bits_do_not_depend_on_the_batch(session: Session, results: list[UnitResult]) -> None:
    units = first_units(session, SHEEP, LIGHT, FRIEND, horizons=(HORIZON,))
    for unit, together in reversed(list(zip(units, results, strict=True))):
        (alone,) = execute(session, [unit])
        assert alone.key == together.key
        assert all(alone.tables[name].equals(together.tables[name], check_metadata=True) for name in together.tables)


def test_fork_is_the_first_decode_step(session: Session, results: list[UnitResult]) -> None:
    row = unit_row(results[0])
    assert row["prompt_token_ids"] == session.tokenizer.encode(SHEEP.text)
    assert row["fork_position"] == len(row["prompt_token_ids"])
    assert row["fork_token"] == row["native_token_ids"][0] == row["branch_token_ids"][0]
    assert row["fork_layer"] == LAYER


def test_selected_class_is_the_farthest(results: list[UnitResult]) -> None:
    for result in results:
        row, classes = unit_row(result), result.tables["breadth_classes"].to_pylist()
        assert len(classes) == row["structural_classes"] == 360
        selected = classes[row["selected_class"]]
        assert selected["linf_post_mhc"] == row["selected_linf"] == max(one["linf_post_mhc"] for one in classes)
        assert all(one["linf_post_mhc"] < row["selected_linf"] for one in classes[: row["selected_class"]])
        assert (selected["order_low"], selected["post_mhc_sha256"]) == (row["selected_order"], row["branch_post_mhc_sha256"])


def test_counts_are_those_of_the_classes(results: list[UnitResult]) -> None:
    for result in results:
        row, classes = unit_row(result), result.tables["breadth_classes"].to_pylist()
        assert row["distinct_moe_outputs"] == len({one["moe_output_sha256"] for one in classes})
        assert row["distinct_post_mhc"] == len({one["post_mhc_sha256"] for one in classes})
        assert row["differing_from_native"] == sum(one["post_mhc_sha256"] != row["native_post_mhc_sha256"] for one in classes)
        assert row["differing_from_native"] == sum(not one["equals_native"] for one in classes)


def test_branch_has_the_class_state_at_the_fork(session: Session, results: list[UnitResult]) -> None:
    row = unit_row(results[2])
    state = session.decoder.new_state()
    session.decoder.step([kernels.Row(state, row["prompt_token_ids"])])
    intervention = kernels.Intervention(
        aggregation={LAYER: ("B", row["selected_order"])}, capture=("post_mhc",), capture_layers=(LAYER,)
    )
    (result,) = session.decoder.step([kernels.Row(state, [row["fork_token"]], intervention)])
    assert floats_sha256(result.captures["post_mhc"][0, 0]) == row["branch_post_mhc_sha256"]


def test_tokens_decide_and_ordinals_count_from_one(results: list[UnitResult]) -> None:
    for result in results:
        row = unit_row(result)
        native, branch = row["native_token_ids"], row["branch_token_ids"]
        assert row["separated"] == (native != branch)
        assert row["native_token_sha256"] == tokens_sha256(native)
        first = next((place for place, (a, b) in enumerate(zip(native, branch, strict=True), start=1) if a != b), None)
        assert row["first_difference"] == first


def test_routes_are_equal_up_to_the_fork(results: list[UnitResult]) -> None:
    for result in results:
        row = unit_row(result)
        assert row["routes_compared"] == (HORIZON - 1) * 12
        assert (row["first_route_position"] is None) == (row["routes_differing"] == 0)
        assert (row["native_routes_sha256"] == row["branch_routes_sha256"]) == (row["routes_differing"] == 0)
        if row["first_route_position"] == row["fork_position"]:
            assert row["first_route_layer"] > LAYER


class Spoken:
    """A tokenizer whose tokens are lines."""

    vocab_size = 8192

    def __init__(self, inner: Any) -> None:
        self.encode = inner.encode

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"line {number}\n\n" for number in ids)


def test_text_of_many_lines_is_stored_whole(session: Session) -> None:
    """R09: a one-line reader cut such texts and undercounted separations."""
    lines = replace(session, tokenizer=Spoken(session.tokenizer))
    row = unit_row(execute(lines, first_units(session, SHEEP))[0])
    assert row["native_text"] == "".join(f"line {number}\n\n" for number in row["native_token_ids"])
    assert row["text_differs"] == (row["native_text"] != row["branch_text"])


class Tampering:
    """A decoder that changes one captured array wherever a step injects, or wherever it does not."""

    def __init__(self, decoder: kernels.Decoder, name: str, *, injected: bool) -> None:
        self._decoder, self._name, self._injected = decoder, name, injected
        self.numerics = decoder.numerics
        self.new_state = decoder.new_state

    def step(self, rows: Sequence[kernels.Row]) -> list[Any]:
        results = self._decoder.step(rows)
        return [self._changed(result) for result in results]

    def _changed(self, result: kernels.StepResult) -> Any:
        # The native forked step captures its operands, the injected one only what came of them.
        if self._name not in result.captures or ("moe_terms" in result.captures) == self._injected:
            return result
        captures = dict(result.captures)
        captures[self._name] = np.nextafter(captures[self._name], np.float32(np.inf))
        return type("Changed", (), {"token": result.token, "logits": result.logits, "captures": captures})()


@pytest.mark.parametrize(
    ("name", "injected", "message"),
    [
        ("post_mhc", True, "en-001, layer 5, position 4: injecting class [0-9]+ gives another post-mHC state"),
        ("post_mhc", False, "does not give the captured native post-mHC state"),
        ("moe_output", False, "do not add up to the captured native MoE output"),
    ],
)
def test_bits_that_disagree_are_a_finding(session: Session, name: str, injected: bool, message: str) -> None:
    tampering = replace(session, decoder=Tampering(session.decoder, name, injected=injected))  # type: ignore[arg-type]
    with pytest.raises(ConformanceFinding, match=message):
        execute(tampering, first_units(session, SHEEP))


def test_checkpoint_that_was_not_planned_is_a_finding(session: Session) -> None:
    (unit,) = first_units(session, SHEEP)
    other = replace(unit, meaning=dict(unit.meaning) | {"checkpoint_identity": "0" * 64})
    with pytest.raises(ConformanceFinding, match="en-001: planned for checkpoint 0000"):
        execute(session, [other])


def test_prompt_beyond_the_positions_is_one_line(session: Session) -> None:
    (unit,) = first_units(session, SHEEP)
    positions = session.checkpoint.config.max_position_embeddings
    long = replace(unit, meaning=dict(unit.meaning) | {"horizon": positions})
    with pytest.raises(InvalidInput, match=r"prompt en-001: text: found [0-9]+ tokens"):
        execute(session, [long])

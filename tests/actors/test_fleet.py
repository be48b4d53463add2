from __future__ import annotations

from dataclasses import replace

import pytest

from actors.executor import WorkerReport
from actors.fleet import admit, require_recorded
from schemas.errors import ConformanceFinding, InvalidInput

FIRST = WorkerReport(
    worker="w0",
    host="alpha",
    pid=1,
    build_id="b" * 64,
    cpu_features={"avx2": True},
    instruction_set="avx2",
    checkpoint_identity="c" * 64,
    tokenizer_identity="d" * 64,
    versions={"numpy": "2.0"},
    threads=2,
)
SECOND = replace(FIRST, worker="w1", host="beta")
THIRD = replace(FIRST, worker="w2", host="gamma")


def test_nobody_and_one_agree() -> None:
    admit([])
    admit([FIRST])


def test_cpu_features_and_versions_may_differ() -> None:
    admit([FIRST, replace(SECOND, cpu_features={"avx2": False}, instruction_set="scalar", versions={"numpy": "2.1"}, threads=1)])


def test_other_build_is_a_finding_that_names_the_odd_one() -> None:
    with pytest.raises(ConformanceFinding) as error:
        admit([replace(FIRST, build_id="e" * 64), SECOND, THIRD])
    assert "w0 on alpha has eeeeeeeeeeee" in str(error.value)
    assert "bbbbbbbbbbbb as w1 on beta, w2 on gamma" in str(error.value)


def test_where_there_is_no_majority_the_first_is_right() -> None:
    with pytest.raises(ConformanceFinding, match="w1 on beta has eeeeeeeeeeee"):
        admit([FIRST, replace(SECOND, build_id="e" * 64)])


@pytest.mark.parametrize("what", ["checkpoint", "tokenizer"])
def test_other_checkpoint_or_tokenizer_is_invalid_input(what: str) -> None:
    odd = replace(THIRD, **{f"{what}_identity": "f" * 64})
    with pytest.raises(InvalidInput) as error:
        admit([FIRST, SECOND, odd])
    assert error.value.file == what
    assert error.value.found == "w2 on gamma has ffffffffffff"
    assert "w0 on alpha, w1 on beta" in error.value.allowed


def test_other_weights_behind_the_same_headers_are_told_apart_where_they_are_known() -> None:
    known = [replace(report, checkpoint_content="1" * 64) for report in (FIRST, SECOND)]
    admit([*known, THIRD])
    with pytest.raises(InvalidInput) as error:
        admit([*known, replace(THIRD, checkpoint_content="2" * 64)])
    assert (error.value.file, error.value.key, error.value.found) == ("checkpoint", "content", "w2 on gamma has 222222222222")


@pytest.mark.parametrize(
    ("changed", "what"),
    [("build_id", "kernel build"), ("checkpoint_identity", "checkpoint"), ("tokenizer_identity", "tokenizer")],
)
def test_a_worker_must_have_what_its_run_was_started_with(changed: str, what: str) -> None:
    recorded = {name: getattr(FIRST, name) for name in ("build_id", "checkpoint_identity", "tokenizer_identity")}
    require_recorded(FIRST, **recorded)
    with pytest.raises(InvalidInput) as error:
        require_recorded(replace(FIRST, **{changed: "f" * 64}), **recorded)
    assert (error.value.file, error.value.key, error.value.found) == ("w0 on alpha", what, "f" * 64)
    assert recorded[changed] in error.value.allowed

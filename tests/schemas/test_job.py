"""Job models: what a breadth job may say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.job import PROTOCOLS, BreadthJob, Job

SMALLEST = {"schema_version": 1, "name": "x", "protocol": "breadth", "catalog": "prompts.tsv"}


def job(**changes: Any) -> BreadthJob:
    return BreadthJob.model_validate(SMALLEST | changes)


def test_defaults_are_the_studys() -> None:
    smallest = job()
    assert smallest.fork.model_dump() == {"layer": 5, "scheme": "B", "event": "first_decode", "select": "max_post_mhc_linf"}
    assert smallest.horizons == (8, 16, 32)
    assert smallest.experiment_seed == 20260722
    assert (smallest.checkpoint, smallest.numerics) == ("builtin", "official")


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"schema_version": True},
        {"schema_version": 1.0},
        {"numerics": "bf16"},
        {"experiment_seed": "1"},
        {"experiment_seed": -1},
        {"experiment_seed": 2**63},
        {"catalog": ""},
        {"catalog": "a\nb"},
        {"catalog": " a"},
        {"catalog": "x" * 1025},
        {"checkpoint": "a\x1b[2Jb"},
        {"horizons": []},
        {"horizons": [1]},
        {"horizons": [8, 8]},
        {"horizons": [16, 8]},
        {"horizons": [8.0]},
        {"horizons": [True, 3]},
        {"horizons": ["8"]},
        {"horizons": "8"},
        {"horizons": [2**40]},
        {"horizons": list(range(2, 67))},
        {"fork": None},
        {"fork": {"layer": -1}},
        {"fork": {"layer": 5.0}},
        {"fork": {"scheme": "A"}},
        {"fork": {"depth": 1}},
        {"execution": {"actors": 0}},
        {"execution": {"threads": 1.5}},
        {"execution": {"batch": 10**9}},
        {"execution": {"deadline_s": 0}},
        {"execution": {"deadline_s": float("inf")}},
        {"execution": {"deadline_s": float("nan")}},
        {"execution": {"memory_mib": 1}},
        {"composition": {"languages": {}}},
        {"composition": {"languages": {"EN": 1}}},
        {"composition": {"languages": {"en\n": 1}}},
        {"composition": {"languages": {"en": -1}}},
        {"composition": {"languages": {"en": True}}},
        {"composition": {"kinds": {"plain": 1}}},
        {"composition": {"languages": {"en": 2}, "kinds": {"ordinary": 1}}},
        {"surprise": 1},
    ],
)
def test_values_out_of_the_contract_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        job(**change)


@pytest.mark.parametrize("name", ["x", "breadth", "a-b_c-9", "0", "a" * 64])
def test_names_that_are_plain_pass(name: str) -> None:
    assert job(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "/a", "a\\b", "A", "a.b", "-a", "a-", "a b", "a\n", "a\0", "早", "a" * 65, "~", "c:"]
)
def test_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        job(name=name)


def test_a_job_is_frozen() -> None:
    with pytest.raises(ValidationError):
        job().name = "y"


def test_a_dumped_job_is_read_back_equal() -> None:
    before = job(horizons=[4, 9], composition={"languages": {"en": 1}}, execution={"threads": 2, "deadline_s": 1.5})
    assert BreadthJob.model_validate(before.model_dump(mode="json")) == before
    assert BreadthJob.model_validate_json(before.model_dump_json()) == before


def test_parameters_hold_nothing_that_only_spreads_or_picks_work() -> None:
    other = job(
        name="y",
        catalog="other.tsv",
        horizons=[4],
        composition={"languages": {"en": 1}},
        execution={"actors": 3, "threads": 2, "batch": 9, "deadline_s": 1, "memory_mib": 64},
    )
    assert other.parameters() == job().parameters()


def test_parameters_hold_the_fork() -> None:
    assert job(fork={"layer": 3}).parameters() != job().parameters()


def test_each_protocol_is_named_as_its_model_says() -> None:
    for name, model in PROTOCOLS.items():
        assert issubclass(model, Job)
        assert model.model_validate(SMALLEST | {"protocol": name}).protocol == name


def test_every_field_says_what_is_allowed() -> None:
    for model in (
        *PROTOCOLS.values(),
        *(field.annotation for name, field in BreadthJob.model_fields.items() if name in {"fork", "execution"}),
    ):
        for name, field in model.model_fields.items():  # type: ignore[union-attr]
            assert field.description, name

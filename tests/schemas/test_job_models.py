"""What jobs of replay, sweep, persistent, canonical, intermediates and propagation may say; breadth is in test_job."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.errors import InvalidInput
from schemas.job import PROTOCOLS, PersistentJob, PropagationJob, SweepJob
from schemas.job_file import parse_job

NAMES = ("replay", "sweep", "persistent", "canonical", "intermediates", "propagation")


def job(protocol: str, **changes: Any) -> Any:
    return PROTOCOLS[protocol].model_validate(
        {"schema_version": 1, "name": "x", "protocol": protocol, "catalog": "c.tsv"} | changes
    )


def test_defaults_are_the_studys() -> None:
    persistent, sweep, propagation = job("persistent"), job("sweep"), job("propagation")
    assert isinstance(persistent, PersistentJob)
    assert (persistent.schemes, persistent.request_seeds, persistent.horizon) == (("P32", "C", "A", "B"), 64, 8)
    assert persistent.experiment_seed == 20260722
    assert isinstance(sweep, SweepJob)
    assert (sweep.fork.layer, sweep.schemes, sweep.horizon) == (5, ("A", "B"), 8)
    assert isinstance(propagation, PropagationJob)
    assert (propagation.scheme, propagation.request_seed, propagation.layers.output, propagation.layers.router) == ("B", 0, 2, 3)
    assert (job("intermediates").scheme, job("intermediates").request_seeds) == ("C", 64)


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("replay", {"horizon": 0}),
        ("replay", {"chunk": 0}),
        ("sweep", {"horizon": 1}),
        ("sweep", {"block": 0}),
        ("sweep", {"schemes": []}),
        ("sweep", {"schemes": ["native"]}),
        ("sweep", {"schemes": ["A", "A"]}),
        ("sweep", {"fork": {"layer": 5, "scheme": "B"}}),
        ("persistent", {"request_seeds": 0}),
        ("persistent", {"request_seeds": True}),
        ("persistent", {"schemes": "B"}),
        ("canonical", {"request_seeds": 1}),
        ("intermediates", {"scheme": "D"}),
        ("propagation", {"layers": {"output": 3, "router": 3}}),
        ("propagation", {"layers": {"output": 3, "router": 2}}),
        ("propagation", {"request_seed": -1}),
    ],
)
def test_values_out_of_the_contract_are_refused(protocol: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        job(protocol, **change)


def test_a_fault_is_one_line() -> None:
    data = {"schema_version": 1, "name": "x", "protocol": "propagation", "catalog": "c", "layers": {"output": 4, "router": 2}}
    with pytest.raises(InvalidInput) as error:
        parse_job(data, file="job.yaml")
    assert str(error.value) == "job.yaml: layers: found output 4 and router 2, allowed: a router layer after the output layer"
    data = {"schema_version": 1, "name": "x", "protocol": "sweep", "catalog": "c", "schemes": ["A", "B", "A"]}
    with pytest.raises(InvalidInput) as error:
        parse_job(data, file="job.yaml")
    assert str(error.value) == "job.yaml: schemes.2: found A again, allowed: each scheme once"


@pytest.mark.parametrize("protocol", NAMES)
def test_a_dumped_job_is_read_back_equal(protocol: str) -> None:
    before = job(protocol)
    assert PROTOCOLS[protocol].model_validate(before.model_dump(mode="json")) == before


@pytest.mark.parametrize(("protocol", "block"), [("sweep", 7), ("persistent", 7), ("intermediates", 7)])
def test_how_work_is_cut_is_no_parameter(protocol: str, block: int) -> None:
    assert job(protocol, block=block, name="y").parameters() == job(protocol).parameters()


@pytest.mark.parametrize(
    ("protocol", "drawn"),
    [("intermediates", True), ("propagation", True), ("persistent", False), ("sweep", False), ("canonical", False)],
)
def test_the_experiment_seed_is_a_parameter_where_every_unit_draws(protocol: str, drawn: bool) -> None:
    """Of persistent, the references draw nothing: its other units name the seed themselves (tests of runner.protocols)."""
    assert (job(protocol, experiment_seed=1).parameters() != job(protocol).parameters()) == drawn

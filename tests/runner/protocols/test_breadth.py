from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from breadth_runs import FRIEND, LIGHT, SHEEP, Rows, experiment, first_units

from actors.executor import Session
from runner.protocol import Experiment
from runner.protocols import PROTOCOLS, breadth
from schemas.errors import InvalidInput
from schemas.job import BreadthJob, Execution
from schemas.job_file import JobFile


@pytest.fixture(scope="module")
def about(session: Session) -> Experiment:
    return experiment(session, SHEEP, FRIEND)


@pytest.fixture(scope="module")
def executed(session: Session, about: Experiment) -> Rows:
    """Both stages, all prompts in each, whoever separated."""
    rows = Rows()
    for stage in breadth.stages(about.job):
        later = replace(about, job=about.job.model_copy(update={"horizons": (int(stage.removeprefix("horizon-")),)}))
        rows.add(stage, breadth.execute(session, breadth.units(later, stage, Rows())))
    return rows


def changed(executed: Rows, stage: str, **columns: Any) -> Rows:
    """The rows with other values in the first row of a stage."""
    copy = Rows(executed.tables)
    rows = copy.tables[stage, "breadth_units"]
    rows[0] = rows[0] | columns
    return copy


def test_is_registered() -> None:
    assert PROTOCOLS["breadth"] is breadth


def test_a_stage_is_a_horizon(about: Experiment) -> None:
    assert list(breadth.stages(about.job)) == ["horizon-3", "horizon-6"]


def test_first_stage_has_every_prompt_in_catalog_order(session: Session) -> None:
    units = first_units(session, FRIEND, SHEEP, LIGHT)
    assert [unit.prompt_id for unit in units] == ["zh-016", "en-001", "en-004"]
    assert [unit.meaning["horizon"] for unit in units] == [3, 3, 3]


def test_only_survivors_are_carried(session: Session) -> None:
    about = experiment(session, SHEEP, LIGHT, FRIEND, horizons=(3, 6, 9))
    rows = Rows()
    blank = breadth.schemas()["breadth_units"]

    def row(prompt: str, horizon: int, separated: bool) -> dict[str, Any]:
        empty = {field.name: [] if "list" in str(field.type) else 0 if "int" in str(field.type) else "" for field in blank}
        floats = {field.name: 0.0 for field in blank if str(field.type) == "float"}
        booleans = {field.name: False for field in blank if str(field.type) == "bool"}
        return empty | floats | booleans | {"prompt_id": prompt, "horizon": horizon, "separated": separated}

    rows.tables["horizon-3", "breadth_units"] = [row("en-001", 3, True), row("en-004", 3, False), row("zh-016", 3, False)]
    assert [unit.prompt_id for unit in breadth.units(about, "horizon-6", rows)] == ["en-004", "zh-016"]
    # en-004 was set aside at 6 tokens: no row, so nothing is known of it at 9
    rows.tables["horizon-6", "breadth_units"] = [row("zh-016", 6, False)]
    assert [unit.prompt_id for unit in breadth.units(about, "horizon-9", rows)] == ["zh-016"]


def test_key_does_not_depend_on_how_the_work_is_spread(session: Session) -> None:
    (one,) = first_units(session, SHEEP)
    (other,) = first_units(session, SHEEP, execution=Execution(actors=7, threads=3, batch=9), name="other", horizons=(3, 4, 5))
    assert one.key == other.key


@pytest.mark.parametrize(
    "change",
    [
        {"job": {"horizons": (4, 6)}},
        {"job": {"fork": {"layer": 4}}},
        {"prompt": {"text": "why the goat"}},
        {"prompt": {"language": "de"}},
        {"prompt": {"kind": "sensitivity"}},
        {"checkpoint_identity": "1" * 64},
        {"tokenizer_identity": "1" * 64},
    ],
)
def test_key_depends_on_what_decides_the_row(session: Session, change: dict[str, Any]) -> None:
    about = experiment(session, SHEEP)
    other = experiment(session, replace(SHEEP, **change.pop("prompt", {})), **change.pop("job", {}))
    other = replace(other, **change)
    keys = [breadth.units(one, breadth.stages(one.job)[0], Rows())[0].key for one in (about, other)]
    assert keys[0] != keys[1]


def test_later_stage_repeats_the_earlier_one(about: Experiment, executed: Rows) -> None:
    assert breadth.check(about, executed) == []


@pytest.mark.parametrize("side", ["native", "branch"])
def test_other_first_tokens_are_found(about: Experiment, executed: Rows, side: str) -> None:
    tokens = executed.tables["horizon-6", "breadth_units"][0][f"{side}_token_ids"]
    rows = changed(executed, "horizon-6", **{f"{side}_token_ids": [tokens[0], tokens[1] + 1, *tokens[2:]]})
    (line,) = breadth.check(about, rows)
    assert line.startswith(f"en-001, horizon 6: {side}_token_ids begins with [")


@pytest.mark.parametrize(
    ("column", "value"), [("selected_class", 359), ("selected_linf", 0.75), ("fork_token", 1), ("native_post_mhc_sha256", "0")]
)
def test_other_fork_is_found(about: Experiment, executed: Rows, column: str, value: object) -> None:
    (line,) = breadth.check(about, changed(executed, "horizon-6", **{column: value}))
    assert line.startswith(f"en-001, horizon 6: {column} is {value}, at horizon 3 it was ")


def test_missing_token_is_found(about: Experiment, executed: Rows) -> None:
    tokens = executed.tables["horizon-6", "breadth_units"][0]["branch_token_ids"]
    (line,) = breadth.check(about, changed(executed, "horizon-6", branch_token_ids=tokens[:5]))
    assert line == "en-001, horizon 6: 5 items in branch_token_ids"


def test_check_of_an_unfinished_run(about: Experiment, executed: Rows) -> None:
    first = Rows({key: rows for key, rows in executed.tables.items() if key[0] == "horizon-3"})
    assert breadth.check(about, first) == []
    assert breadth.check(about, Rows()) == []


def test_report_counts_both_stages(about: Experiment, executed: Rows) -> None:
    stages, *groups = breadth.report(about, executed)
    assert [row[0] for row in stages.rows] == ["3 tokens", "6 tokens"]
    assert [table.columns[0] for table in groups] == ["language", "kind"]


def preflight(session: Session, tokens: int = 4, **job: Any) -> None:
    file = JobFile(Path("job.yaml"), experiment(session, SHEEP, **job).job)
    breadth.preflight(file, session.checkpoint.config, {"en-001": tokens})


def test_shipped_parameters_pass_preflight(session: Session) -> None:
    preflight(session, horizons=(8, 16, 32))


def test_what_the_checkpoint_cannot_do_is_one_line(session: Session) -> None:
    layers = session.checkpoint.config.num_hidden_layers
    with pytest.raises(InvalidInput, match=rf"job\.yaml: fork\.layer: found {layers}, allowed: 0\.\.{layers - 1}"):
        preflight(session, fork={"layer": layers})
    with pytest.raises(InvalidInput, match=r"job\.yaml: numerics: found fp32, allowed: official"):
        preflight(session, numerics="fp32")


def test_positions_may_be_used_up_and_no_more(session: Session) -> None:
    """A prompt of n tokens with horizon h needs n + h - 1 positions."""
    positions = session.checkpoint.config.max_position_embeddings
    preflight(session, tokens=positions - 7, horizons=(4, 8))
    message = rf"job\.yaml: horizons: found 8 after the {positions - 6} tokens of prompt en-001, allowed: {positions} positions"
    with pytest.raises(InvalidInput, match=message):
        preflight(session, tokens=positions - 6, horizons=(4, 8))


def test_job_of_another_protocol_is_a_bug() -> None:
    other = BreadthJob.__mro__[1].model_construct(protocol="other")
    with pytest.raises(TypeError, match="a breadth job"):
        breadth.stages(other)

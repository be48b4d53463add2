"""breadth_summary against raw rows, and against the study's own stage table (B.3) from rows as its saved files had them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from random_runs import RandomRuns
from raw import raw, read_tsv

from runner.cli.export import write_tables
from runner.protocol import Experiment
from runner.support.breadth_summary import rows
from schemas.catalog import Prompt
from schemas.job import BreadthJob


def test_separations_are_those_of_the_rows(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = random_runs.run("breadth", {"protocol": "breadth", "fork": {"layer": 3}, "horizons": [3, 6]})
    table = [line for line in read_tsv(write_tables(run, tmp_path)["breadth_summary"]) if line["grouping"] == "all"]
    units = raw(run, "breadth_units")
    separated: set[str] = set()
    for line, horizon in zip(table, (3, 6), strict=True):
        stage = [row for row in units if row["horizon"] == horizon]
        assert int(line["at_risk"]) == len(stage)
        separated |= {row["prompt_id"] for row in stage if row["native_token_ids"] != row["branch_token_ids"]}
        assert int(line["cumulative"]) == len(separated)


class StudyFiles:
    """Rows as the study's saved files had them: 12 of 50 separate at 8 tokens, 12 of 38 at 16, and the 32-token file shows 17
    differences, five of them of prompts that had separated at 16.
    """

    def table(self, stage: str, table: str) -> pa.Table:
        at_risk, differing = {
            "horizon-8": (range(50), set(range(12))),
            "horizon-16": (range(12, 50), set(range(12, 24))),
            "horizon-32": ([*range(19, 24), *range(24, 50)], {*range(19, 24), *range(24, 36)}),
        }[stage]
        found = [{"prompt_id": f"p{number}", "separated": number in differing} for number in at_risk]
        return pa.Table.from_pylist(found)


def study_rows() -> list[Any]:
    prompts = [Prompt(f"p{number}", ("en", "zh")[number % 2], "ordinary", f"text {number}") for number in range(50)]
    job = BreadthJob(schema_version=1, name="b", protocol="breadth", catalog="c.tsv")
    run = SimpleNamespace(experiment=Experiment(job, prompts, "c" * 64, "d" * 64), store=StudyFiles())
    return list(rows(run))  # type: ignore[arg-type]


def test_repeated_stage_rows_are_no_new_events() -> None:  # R10
    columns = ("horizon", "at_risk", "new", "cumulative", "differing_rows", "repeated")
    table = [tuple(row[column] for column in columns) for row in study_rows() if row["grouping"] == "all"]
    assert table == [(8, 50, 12, 12, 12, 0), (16, 38, 12, 24, 12, 0), (32, 26, 12, 36, 17, 5)]


def test_groups_add_up_to_all() -> None:
    table = study_rows()
    for horizon in (8, 16, 32):
        [whole] = [row for row in table if (row["horizon"], row["grouping"]) == (horizon, "all")]
        for grouping in ("language", "kind"):
            groups = [row for row in table if (row["horizon"], row["grouping"]) == (horizon, grouping)]
            for column in ("prompts", "at_risk", "new", "cumulative", "differing_rows", "repeated"):
                assert sum(row[column] for row in groups) == whole[column]

"""basin_counts and basin_rank_frequency against the raw rows of a sweep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from random_runs import RandomRuns
from raw import raw, read_tsv
from small_jobs import small_run

from runner.cli.export import write_tables
from runner.run import Run


@pytest.fixture
def run(random_runs: RandomRuns) -> Run:
    return small_run(random_runs, "sweep")


def test_distinct_things_are_counted_by_their_digests(run: Run, tmp_path: Path) -> None:
    counts = {(row["prompt_id"], row["scheme"]): row for row in read_tsv(write_tables(run, tmp_path)["basin_counts"])}
    assert list(counts) == [("en-1", "A"), ("en-1", "B"), ("en-2", "A"), ("en-2", "B")]
    for (prompt, scheme), row in counts.items():
        rows = [one for one in raw(run, "sweep_orders") if (one["prompt_id"], one["scheme"]) == (prompt, scheme)]
        assert int(row["raw_orders"]) == len(rows) == 24
        assert int(row["branches"]) == (12 if scheme == "B" else 24)
        assert int(row["distinct_moe_outputs"]) == len({one["moe_output_sha256"] for one in rows})
        assert int(row["distinct_post_mhc"]) == len({one["post_mhc_sha256"] for one in rows})
        assert int(row["distinct_token_sequences"]) == len({tuple(one["token_ids"]) for one in rows})
        assert int(row["differing_from_native"]) * (2 if scheme == "B" else 1) == sum(not one["equals_native"] for one in rows)


def test_volumes_are_those_of_the_token_sequences(run: Run, tmp_path: Path) -> None:
    basins = [row for row in read_tsv(write_tables(run, tmp_path)["basin_rank_frequency"]) if row["scheme"] == "A"]
    for prompt in ("en-1", "en-2"):
        of_prompt = [row for row in basins if row["prompt_id"] == prompt]
        rows = [one for one in raw(run, "sweep_orders") if (one["prompt_id"], one["scheme"]) == (prompt, "A")]
        volumes = sorted(Counter(tuple(one["token_ids"]) for one in rows).values(), reverse=True)
        assert [int(row["branches"]) for row in of_prompt] == volumes
        assert [int(row["rank"]) for row in of_prompt] == list(range(1, len(volumes) + 1))
        assert {row["of_branches"] for row in of_prompt} == {"24"}

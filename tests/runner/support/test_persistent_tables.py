"""persistent_ablation, canonical_reference, c_intermediate_summary and propagation_trace against the raw rows of their runs."""

from __future__ import annotations

from pathlib import Path

from random_runs import RandomRuns
from raw import raw, read_tsv
from small_jobs import JOBS, small_run

from runner.cli.export import write_tables


def test_divergences_are_counted_against_both_references(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "persistent")
    rows = raw(run, "persistent_trajectories")
    table = read_tsv(write_tables(run, tmp_path)["persistent_ablation"])
    assert [(row["prompt_id"], row["scheme"]) for row in table] == [
        (prompt, scheme) for prompt in ("en-1", "en-2") for scheme in ("P32", "C", "A", "B")
    ]
    for line in table:
        prompt, scheme = line["prompt_id"], line["scheme"]
        mine = [row for row in rows if row["prompt_id"] == prompt]
        [native] = [row for row in mine if row["scheme"] == "native"]
        [canonical] = [row for row in mine if (row["scheme"], row["schedule"]) == (scheme, "identity")]
        random = [row for row in mine if (row["scheme"], row["schedule"]) == (scheme, "random")]
        assert int(line["trajectories"]) == len(random) == 5
        assert int(line["native_token_divergence"]) == sum(row["token_ids"] != native["token_ids"] for row in random)
        assert int(line["canonical_token_divergence"]) == sum(row["token_ids"] != canonical["token_ids"] for row in random)
        assert int(line["native_route_divergence"]) == sum(row["routes_sha256"] != native["routes_sha256"] for row in random)
        assert int(line["canonical_route_divergence"]) == sum(
            row["routes_sha256"] != canonical["routes_sha256"] for row in random
        )
        assert int(line["unique_continuations"]) == len({tuple(row["token_ids"]) for row in random})
        assert (line["canonical_native_tokens_differ"] == "yes") == (canonical["token_ids"] != native["token_ids"])


def test_the_identity_order_is_compared_with_native(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "canonical")
    rows = raw(run, "canonical_trajectories")
    table = read_tsv(write_tables(run, tmp_path)["canonical_reference"])
    assert len(table) == 8
    for line in table:
        [native] = [row for row in rows if (row["prompt_id"], row["scheme"]) == (line["prompt_id"], "native")]
        [mine] = [row for row in rows if (row["prompt_id"], row["scheme"]) == (line["prompt_id"], line["scheme"])]
        differing = [place for place in range(4) if mine["token_ids"][place] != native["token_ids"][place]]
        assert line["first_difference"] == (str(differing[0] + 1) if differing else "")
        assert line["native_tokens_differ"] == ("yes" if differing else "no")
        assert line["native_route_differs"] == ("no" if mine["routes_sha256"] == native["routes_sha256"] else "yes")


def test_intermediates_are_summed_by_prompt(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = random_runs.run("intermediates-b", JOBS["intermediates"] | {"scheme": "B", "request_seeds": 2})
    table = read_tsv(write_tables(run, tmp_path)["c_intermediate_summary"])
    assert [line["prompt_id"] for line in table] == ["en-1", "en-2"]
    for line in table:
        rows = [row for row in raw(run, "intermediate_checks") if row["prompt_id"] == line["prompt_id"]]
        assert (line["scheme"], int(line["schedules"]), int(line["missing_records"])) == ("B", 2, 0)
        assert float(line["logits_max_linf"]) > 0
        for kind in ("moe", "post_mhc", "router", "logits"):
            assert abs(float(line[f"{kind}_max_linf"]) - max(row[f"{kind}_linf"] for row in rows)) < 1e-7
        assert (int(line["bitwise_equal_schedules"]), line["all_bitwise_equal"]) == (0, "no")


def test_the_trace_says_what_its_row_says(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "propagation")
    row = next(one for one in raw(run, "propagation_traces") if one["prompt_id"] == "en-1")
    lines = {
        line["stage"]: line for line in read_tsv(write_tables(run, tmp_path)["propagation_trace"]) if line["prompt_id"] == "en-1"
    }
    assert lines["layer-1 MoE output"]["native"] == row["native_moe_output_sha256"][:16]
    assert lines["logits after the prompt"]["native"].startswith(f"argmax {row['native_token_ids'][0]}, ")
    assert lines["route trajectory"]["difference"].startswith(f"{row['routes_differing']}/{row['routes_compared']} ")
    experts = ", ".join(str(expert) for expert in sorted(row["candidate_experts"]))
    assert lines["layer-2 router"]["candidate"].startswith("{" + experts + "}, margin ")

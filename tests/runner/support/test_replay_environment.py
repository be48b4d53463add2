"""replay_environment: what the run was, and what its workers said of themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from random_runs import RandomRuns
from raw import read_tsv
from small_jobs import small_run

import kernels
from actors.environment import environment
from runner.cli.export import write_tables
from runner.run import open_run


def test_it_says_what_the_record_and_the_workers_say(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "replay")
    table = {row["property"]: row for row in read_tsv(write_tables(run, tmp_path)["replay_environment"])}
    record = json.loads(run.paths.record.read_bytes())
    assert table["worker.checkpoint_identity"]["value"] == record["checkpoint_identity"]
    assert table["worker.tokenizer_identity"]["value"] == record["tokenizer_identity"]
    assert table["worker.build_id"]["value"] == table["driver.kernels"]["value"] == kernels.BUILD_ID
    assert table["worker.threads"] == {"property": "worker.threads", "value": "1", "workers": "1"}
    assert table["job.chunk"]["value"] == "2"
    assert table["worker.environment.system"]["value"] == environment()["system"]
    assert "worker.pid" not in table


def test_workers_that_report_the_same_are_counted(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "replay")
    joined = [json.loads(line) for line in run.paths.events.read_text(encoding="utf-8").splitlines()]
    [event] = [one for one in joined if one["event"] == "joined"]
    copy = tmp_path / "run"
    shutil.copytree(run.paths.root, copy)
    other = event | {"worker": "w1", "pid": 2, "host": "elsewhere"}
    (copy / "events.log").write_text("".join(json.dumps(one) + "\n" for one in (event, other, {"event": "left", "worker": "w1"})))
    table = read_tsv(write_tables(open_run(copy), tmp_path / "out")["replay_environment"])
    assert [row["workers"] for row in table if row["property"] == "worker.build_id"] == ["2"]
    assert sorted(row["workers"] for row in table if row["property"] == "worker.host") == ["1", "1"]

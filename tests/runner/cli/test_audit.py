"""`runner audit` as a user calls it."""

from __future__ import annotations

from pathlib import Path

from small_job import Command
from tamper import Rows, rewritten

from runner.run import open_run


def test_a_right_run_ends_with_0_and_a_ledger(run: Command, submitted: Path) -> None:
    ended = run("audit", submitted)
    assert ended.code == 0
    for words in ("breadth: runs/small", "at_risk", "holds", "measured", "no run of replay, sweep", "0 fails"):
        assert words in ended.out


def test_json_has_every_claim_with_its_evidence(run: Command, submitted: Path) -> None:
    ledger = run("audit", submitted, "--json").json
    assert ledger["holds"]
    line = next(one for one in ledger["claims"] if one["claim"] == "breadth.classes")
    assert (line["section"], line["kind"], line["verdict"], line["run"]) == ("2.6", "structural", "holds", "runs/small")
    assert line["file"] == "runs/small/tables/breadth_classes"
    assert sum(ledger["counts"].values()) == len(ledger["claims"])


def test_a_changed_run_ends_with_4_and_names_the_claim_and_the_file(run: Command, submitted: Path) -> None:
    def longer(rows: Rows) -> Rows:
        return [row | {"native_text": row["native_text"] + "."} for row in rows]

    changed = rewritten(open_run(submitted), Path("runs/changed"), "breadth_units", longer)
    ended = run("audit", "runs/changed")
    assert ended.code == 4
    line = next(line for line in ended.out.splitlines() if line.startswith("fails: breadth.decoded"))
    assert "native_text is not what native_token_ids say (runs/changed/tables/breadth_units/horizon-2-" in line
    assert run("audit", changed.paths.root, "--json").code == 4


def test_the_published_figures_are_audited_without_any_run(run: Command) -> None:
    ended = run("audit", "--published")
    assert ended.code == 0
    assert "768 = 3*64*4" in ended.out
    assert "0 fails" in ended.out


def test_nothing_to_audit_is_a_usage_error(run: Command) -> None:
    ended = run("audit")
    assert ended.code == 2
    assert "RUNS: found none" in ended.err


def test_what_is_no_run_is_named(run: Command) -> None:
    ended = run("audit", ".")
    assert ended.code == 2
    assert "run.json: found no such file" in ended.err

"""`runner export`: which tables, when, and from which files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from random_runs import RandomRuns
from small_jobs import JOBS, small_run

from runner.cli import main
from runner.cli.export import write_tables
from runner.run import open_run
from runner.support import TABLES, tables_of
from runner.support.document import PAGE, document
from schemas.errors import ConformanceFinding, InvalidInput

A4 = {
    "basin_counts",
    "basin_rank_frequency",
    "breadth_summary",
    "c_intermediate_summary",
    "canonical_reference",
    "event_direction_counts",
    "event_direction_unique_continuations",
    "human_annotation_agreement",
    "human_annotation_confusion",
    "kv_equivalence",
    "kv_equivalence_layers",
    "kv_equivalence_summary",
    "mhc_equivalence",
    "mhc_equivalence_summary",
    "mhc_prefork_equivalence",
    "persistent_ablation",
    "propagation_trace",
    "replay_branches",
    "replay_environment",
    "replay_pairs",
}
"""The derived support tables that study A.4 names."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_table_of_the_study_is_there() -> None:
    assert {table.name for table in TABLES} == A4
    assert len(TABLES) == len(A4)


def test_the_page_says_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "python -m runner.support.document writes it"


def test_every_column_has_a_meaning_and_a_name_of_its_own() -> None:
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.name
        assert all(column.doc for column in table.columns), table.name


@pytest.mark.parametrize("protocol", JOBS)
def test_a_run_gets_the_tables_of_its_protocol(random_runs: RandomRuns, tmp_path: Path, protocol: str) -> None:
    written = write_tables(small_run(random_runs, protocol), tmp_path / "out")
    assert set(written) == {table.name for table in tables_of(protocol)}
    for table in tables_of(protocol):
        header, *rows = written[table.name].read_text(encoding="utf-8").splitlines()
        assert header.split("\t") == [column.name for column in table.columns]
        assert rows


def test_the_command_writes_beside_the_dataset_and_says_where(
    random_runs: RandomRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(random_runs, "canonical")
    with pytest.raises(SystemExit) as ended:
        main(["export", str(run.paths.root), "--json"])
    assert ended.value.code == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert Path(tables["canonical_reference"]) == run.paths.root / "support" / "canonical_reference.tsv"
    assert all(Path(path).is_file() for path in tables.values())
    assert run.store.orphans() == []


def test_the_same_dataset_gives_the_same_bytes(random_runs: RandomRuns, tmp_path: Path) -> None:
    run = small_run(random_runs, "sweep")
    write_tables(run, tmp_path / "a")
    write_tables(run, tmp_path / "a")
    write_tables(open_run(run.paths.root), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_run_with_a_data_file_too_many_or_too_few_is_refused(random_runs: RandomRuns, tmp_path: Path) -> None:
    """A copy under another name, as a renamed file leaves behind, would double its rows."""
    shutil.copytree(small_run(random_runs, "persistent").paths.root, tmp_path / "run")
    run = open_run(tmp_path / "run")
    file = next(run.paths.tables.rglob("schedules-*.parquet"))
    shutil.copy(file, file.with_name("renamed.parquet"))
    with pytest.raises(ConformanceFinding, match=r"renamed\.parquet was not there"):
        write_tables(open_run(tmp_path / "run"), tmp_path / "out")
    file.unlink()
    with pytest.raises(ConformanceFinding, match=rf"{file.name} is not there any more"):
        write_tables(open_run(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_finished_is_refused(random_runs: RandomRuns, tmp_path: Path) -> None:
    shutil.copytree(small_run(random_runs, "canonical").paths.root, tmp_path / "run")
    (tmp_path / "run" / "finished.json").unlink()
    with pytest.raises(InvalidInput, match="found a run that is unfinished, allowed: a finished run"):
        write_tables(open_run(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()

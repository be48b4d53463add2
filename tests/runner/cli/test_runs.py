"""From submit to verify on the embedded checkpoint, as a user does it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_job import CATALOG, JOB, Command

import kernels
from actors.tokenizer import CheckpointTokenizer
from runner.claim import Claim
from runner.disk import Disk
from runner.interrupt import Interrupted
from runner.local_storage import LocalStorage
from runner.paths import RunPaths
from runner.protocols import breadth
from schemas.errors import ConformanceFinding


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_submit_prints_the_stage_table_and_where_the_dataset_lies(run: Command) -> None:
    ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 0
    for words in ("Separation by horizon", "2 tokens", "4 tokens", "by language", "by kind", "runs/small/tables", "digest"):
        assert words in ended.out


def test_progress_goes_to_stderr_in_lines_where_there_is_no_terminal(run: Command) -> None:
    err = run("submit", "job.yaml", "--address", "inline").err.splitlines()
    assert err[0] == "stage horizon-2: 0/3 units done"
    assert "stage horizon-2: 3/3 units done" in err


def test_a_finished_run_is_only_reported(run: Command, submitted: Path) -> None:
    before = files(submitted)
    again = run("submit", "job.yaml", "--address", "inline")
    assert again.code == 0
    assert again.out.startswith("runs/small: this run is finished\n")
    assert "Separation by horizon" in again.out
    assert files(submitted) == before


def test_json_says_what_the_tables_say(run: Command) -> None:
    report = run("submit", "job.yaml", "--address", "inline", "--json").json
    assert report["state"] == "finished"
    assert report["report"][0]["columns"][0] == "horizon"
    assert report["dataset_digest"] == run("verify", "runs/small", "--json").json["dataset_digest"]


def test_a_dry_run_checks_and_writes_nothing(run: Command) -> None:
    ended = run("submit", "job.yaml", "--dry-run")
    assert ended.code == 0
    assert "horizon-2" in ended.out
    assert not Path("runs").exists()


def test_verify_finds_a_finished_run_clean_and_a_damaged_one_not(run: Command, submitted: Path) -> None:
    assert run("verify", submitted).code == 0
    path = next(submitted.rglob("*.parquet"))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    ended = run("verify", submitted)
    assert ended.code == 4
    assert f"fault: {path}" in ended.out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("fork.layer=4", "job.yaml: fork.layer: found 4, allowed: 5, as the run was started"),
        ("horizons=[2,5]", "job.yaml: horizons: found [2, 5], allowed: [2, 4], as the run was started"),
        ("experiment_seed=1", "job.yaml: experiment_seed: found 1, allowed: 20260722"),
    ],
)
def test_a_job_that_means_something_else_is_refused(run: Command, submitted: Path, option: str, said: str) -> None:
    before = files(submitted)
    ended = run("submit", "job.yaml", "--address", "inline", "--set", option)
    assert ended.code == 2
    assert said in ended.err
    assert files(submitted) == before


@pytest.mark.parametrize("option", ["execution.threads=2", "execution.batch=7", "execution.deadline_s=5", "name=small"])
def test_how_the_work_is_spread_may_change(run: Command, submitted: Path, option: str) -> None:
    assert run("submit", "job.yaml", "--address", "inline", "--set", option).code == 0


def test_changed_bytes_under_a_used_prompt_id_are_refused(run: Command, submitted: Path) -> None:
    Path("prompts.tsv").write_text(CATALOG.replace("why the sheep", "why the goat"), encoding="utf-8")
    ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 2
    assert "prompts.tsv: en-1: found text with SHA-256" in ended.err


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        (CATALOG + "en-3\ten\tordinary\tone more\n", "found 4 prompts, 1 of them added, such as en-3"),
        (CATALOG[: CATALOG.index("en-2")], "found 2 prompts, 1 of them left out, such as en-2"),
        (CATALOG.replace("ordinary\twhy", "sensitivity\twhy"), "in another order or with another language or kind"),
    ],
)
def test_another_cohort_is_refused(run: Command, submitted: Path, catalog: str, said: str) -> None:
    Path("prompts.tsv").write_text(catalog, encoding="utf-8")
    ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 2
    assert said in ended.err


def test_files_of_another_pyarrow_are_not_mixed(run: Command, submitted: Path) -> None:
    record = json.loads((submitted / "run.json").read_text())
    record["versions"]["pyarrow"] = "1.0"
    (submitted / "run.json").write_text(json.dumps(record))
    ended = run("resume", submitted, "--address", "inline")
    assert ended.code == 2
    assert "versions.pyarrow: found 1.0, allowed: " in ended.err


def of_other_kernels(root: Path) -> str:
    """Make run.json say that another build began the run; returns that build's ID."""
    record = json.loads((root / "run.json").read_text())
    record["versions"]["kernels"] = "e" * 64
    (root / "run.json").write_text(json.dumps(record))
    return "e" * 64


@pytest.mark.parametrize("command", ["resume", "retry --failed", "submit job.yaml --run-dir"])
def test_no_other_kernels_go_on_with_a_run(run: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    interrupted(run, monkeypatch, after=2)
    began = of_other_kernels(Path("runs/small"))
    before = files(Path("runs/small/tables"))
    ended = run(*command.split(), "runs/small", "--address", "inline")
    assert ended.code == 2
    assert f"versions.kernels: found {began}, allowed: {kernels.BUILD_ID}, which is installed" in ended.err
    assert files(Path("runs/small/tables")) == before


def test_a_finished_run_of_other_kernels_is_still_read(run: Command, submitted: Path) -> None:
    of_other_kernels(submitted)
    for command in ("submit job.yaml", f"resume {submitted}", f"verify {submitted}", f"status {submitted}"):
        assert run(*command.split()).code == 0


def test_what_a_worker_found_stays_with_the_run(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def contradicting(session: object, units: object) -> object:
        raise ConformanceFinding("en-1: bits differ")

    with monkeypatch.context() as patched:
        patched.setattr(breadth, "execute", contradicting)
        assert run("submit", "job.yaml", "--address", "inline").code == 4
    for command in ("submit job.yaml", "resume runs/small", "retry runs/small --failed"):
        ended = run(*command.split(), "--address", "inline")
        assert ended.code == 4
        assert "en-1: bits differ; kept as runs/small/findings/worker-horizon-2.json" in ended.err
    assert run("verify", "runs/small").code == 4
    assert run("status", "runs/small", "--json").json["state"] == "differs"


def interrupted(run: Command, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Stop a run after so many entries of its journal, as if its process had been killed."""
    linked = []
    link = Disk.link

    def link_or_die(self: Disk, source: Path, target: Path) -> None:
        if target.suffix == ".entry":
            if len(linked) == after:
                raise Interrupted("killed")
            linked.append(target)
        link(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "link", link_or_die)
        assert run("submit", "job.yaml", "--address", "inline").code == 130


def test_resume_needs_nothing_but_the_run_directory(run: Command, submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files(submitted / "tables")
    shutil.rmtree(submitted)
    interrupted(run, monkeypatch, after=3)
    Path("job.yaml").unlink()
    Path("prompts.tsv").unlink()
    assert files(submitted / "tables") != whole
    assert run("resume", submitted, "--address", "inline", "--threads", "2").code == 0
    assert files(submitted / "tables") == whole


def test_the_same_command_resumes(run: Command, submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files(submitted / "tables")
    shutil.rmtree(submitted)
    for after in (0, 1, 2, 3):
        interrupted(run, monkeypatch, after)
        assert run("verify", submitted).code == 0
    assert run("submit", "job.yaml", "--address", "inline").code == 0
    assert files(submitted / "tables") == whole


def test_status_and_ls_believe_the_store(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:  # R08
    interrupted(run, monkeypatch, after=3)
    assert run("status", "runs/small", "--json").json["state"] == "unfinished"
    assert run("ls", "--json").json[0]["state"] == "unfinished"
    run("resume", "runs/small", "--address", "inline")
    assert run("status", "runs/small", "--json").json["state"] == "finished"
    assert "finished" in run("ls").out
    assert "horizon-4" in run("status", "runs/small", "--watch").out


def test_a_run_with_a_driver_is_busy(run: Command, submitted: Path) -> None:
    (submitted / "finished.json").unlink()
    with Claim(LocalStorage(), RunPaths(submitted)):
        ended = run("submit", "job.yaml", "--address", "inline")
        assert run("status", submitted, "--json").json["driver"].startswith(f"process {os.getpid()} on host")
    assert ended.code == 5
    assert f"process {os.getpid()} on host" in ended.err


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize(
    "refused", ["claims/000000001.json", "journal/000000001.entry", "journal/000000003.entry", "finished.json"]
)
def test_what_the_disk_refuses_is_one_line_and_loses_nothing(
    run: Command, monkeypatch: pytest.MonkeyPatch, code: int, refused: str
) -> None:
    """Before the run, at its first commit, and when it is all but done."""
    link = Disk.link

    def refusing(self: Disk, source: Path, target: Path) -> None:
        if str(target).endswith(refused):
            raise OSError(code, os.strerror(code), str(target))
        link(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "link", refusing)
        ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == f"runner: runs/small/{refused}: {os.strerror(code)}"
    assert "Traceback" not in ended.err
    if Path("runs/small/run.json").exists():
        assert run("verify", "runs/small").code == 0
    assert run("submit", "job.yaml", "--address", "inline").code == 0
    assert run("verify", "runs/small", "--json").json["leftovers"] == []


def damages(event: dict[str, object]) -> Iterator[dict[str, object]]:
    """The event less each of its fields, and with each of another type."""
    for name in event:
        yield {key: value for key, value in event.items() if key != name}
        for other in (None, [], {}, "x", -1, [[1]], {"a": 1}):
            yield event | {name: other}


def test_a_damaged_events_log_stops_no_command(run: Command, submitted: Path) -> None:
    log = submitted / "events.log"
    events = {event["event"]: event for event in map(json.loads, log.read_text("utf-8").splitlines())}
    events["set_aside"] = {"event": "set_aside", "time": "x", "stage": "horizon-2", "prompt_id": "en-1", "strikes": 3}
    lines = [json.dumps(damaged) for event in events.values() for damaged in damages(event)]
    log.write_bytes("\n".join(lines).encode() + b'\n[]\n1\n{"event"\n\xff\n' + b"[" * 100_000 + b"\n")
    for command in (("status",), ("status", "--json"), ("status", "--watch"), ("logs",), ("logs", "--json"), ("export",)):
        ended = run(command[0], submitted, *command[1:])
        assert ended.code == 0, (command, ended.err[-300:])


def test_show_prints_native_and_branch_with_their_tokens(run: Command, submitted: Path) -> None:
    rows = run("show", submitted, "zh-1", "--json").json
    assert [row["stage"] for row in rows] == ["horizon-2", "horizon-4"][: len(rows)]
    out = run("show", submitted, "zh-1").out
    assert "朋友昨天打来电话" in out
    for token in rows[-1]["native_token_ids"]:
        assert str(token) in out


def test_texts_are_stored_whole_however_many_lines(run: Command, submitted: Path) -> None:  # R09
    tokenizer = CheckpointTokenizer(kernels.builtin_checkpoint(), checkpoint_vocab_size=8192)
    rows = run("show", submitted, "--json").json
    assert rows
    for row in rows:
        assert row["native_text"] == tokenizer.decode(row["native_token_ids"])
        assert row["branch_text"] == tokenizer.decode(row["branch_token_ids"])


def test_show_names_a_prompt_it_does_not_know(run: Command, submitted: Path) -> None:
    ended = run("show", submitted, "fr-1")
    assert ended.code == 2
    assert "prompt_id: found fr-1" in ended.err


def test_a_finished_run_that_lost_rows_is_shown_by_no_command(run: Command, submitted: Path) -> None:
    """A finished run is held to its mark; ls says so in its row and goes on."""
    sorted((submitted / "tables").rglob("*.parquet"))[0].unlink()
    for command in (("show", str(submitted)), ("show", str(submitted), "--json"), ("status", str(submitted))):
        done = run(*command)
        assert done.code == 4, command
        assert "runner verify" in done.err + done.out, command
    listed = run("ls", str(submitted.parent))
    assert listed.code == 0
    assert "unreadable" in listed.out


def test_show_lists_every_prompt(run: Command, submitted: Path) -> None:
    out = run("show", submitted).out
    for prompt in ("en-1", "zh-1", "en-2"):
        assert prompt in out


def test_plan_tells_why_units_are_stale(run: Command, submitted: Path) -> None:  # R06
    assert "3" in run("plan", "job.yaml").out
    out = run("plan", "job.yaml", "--set", "fork.layer=4").out
    assert "stage horizon-2: 3 units are stale: parameters.fork.layer changed from 5 to 4" in out
    catalog = Path("prompts.tsv").read_text("utf-8")
    Path("prompts.tsv").write_text(catalog.replace("why the sheep", "why the ships"), "utf-8")
    out = run("plan", "job.yaml", "--units").out
    assert "stage horizon-2: 1 units are stale: prompt_sha256 changed from" in out
    assert [line.split("│")[4].strip() for line in out.splitlines() if "en-1" in line] == ["stale"]
    assert [line.split("│")[4].strip() for line in out.splitlines() if "zh-1" in line] == ["done"]
    Path("prompts.tsv").write_text(catalog, "utf-8")
    units = run("plan", "job.yaml", "--json").json["stages"]["horizon-2"]
    assert [unit["reason"] for unit in units] == ["done"] * 3


def test_nothing_of_a_run_is_open_to_others(run: Command, submitted: Path) -> None:
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in [submitted, *submitted.rglob("*")])


def test_doctor_says_what_a_checkpoint_is(run: Command) -> None:
    found = run("doctor", "--json").json
    assert found["checkpoint"]["tensors"] == 2733
    assert found["checkpoint"]["shards"] == 3
    assert len(found["checkpoint"]["identity"]) == 64
    assert found["checkpoint"]["identity"] in run("doctor").out


def test_doctor_reads_the_weights_on_demand(run: Command) -> None:
    digest = kernels.Checkpoint.open(kernels.builtin_checkpoint()).content_digest()
    assert run("doctor", "--content", "--json").json["checkpoint"]["content"] == digest
    assert digest not in run("doctor").out


def test_doctor_names_the_fault_of_what_is_no_checkpoint(run: Command) -> None:
    ended = run("doctor", "--checkpoint", ".")
    assert ended.code == 2
    assert "config.json" in ended.err


def test_schema_prints_the_job_schema_and_the_tables(run: Command) -> None:
    assert "BreadthJob" in run("schema").json["$defs"]
    assert run("schema", "breadth_units").json["schema_version"] == 1


def test_an_absolute_catalog_is_copied_into_the_run(run: Command) -> None:
    Path("elsewhere").mkdir()
    Path("prompts.tsv").rename("elsewhere/p.tsv")
    Path("job.yaml").write_text(JOB.replace("prompts.tsv", str(Path("elsewhere/p.tsv").absolute())))
    assert run("submit", "job.yaml", "--address", "inline").code == 0
    assert Path("runs/small/catalog.tsv").read_text("utf-8") == CATALOG

"""A user's mistake is one line that names file, place, found and allowed, ends with 2, writes nothing and shows no traceback."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_job import CATALOG, JOB, Command

import kernels
from runner.local_storage import LocalStorage


def edit_job(old: str, new: str) -> None:
    Path("job.yaml").write_text(JOB.replace(old, new))


def add_prompt(line: str) -> None:
    Path("prompts.tsv").write_text(CATALOG + line, encoding="utf-8")


def unknown_key() -> None:
    edit_job("horizons", "horizon")


def wrong_type() -> None:
    edit_job("[2, 4]", '[2, "4"]')


def missing_catalog() -> None:
    Path("prompts.tsv").unlink()


def duplicate_id() -> None:
    add_prompt("en-1\ten\tordinary\tsomething else\n")


def empty_prompt() -> None:
    add_prompt("en-3\ten\tordinary\t\n")


def invalid_utf8() -> None:
    Path("prompts.tsv").write_bytes(CATALOG.encode() + b"en-3\ten\tordinary\t\xff\xfe\n")


def layer_out_of_range() -> None:
    edit_job("horizons", "fork: {layer: 12}\nhorizons")


def horizon_not_increasing() -> None:
    edit_job("[2, 4]", "[4, 4]")


def no_checkpoint() -> None:
    Path("nothing").mkdir()
    edit_job("horizons", "checkpoint: nothing\nhorizons")


def copy_of_the_checkpoint() -> Path:
    shutil.copytree(kernels.builtin_checkpoint(), "mote", copy_function=lambda a, b: Path(b).write_bytes(Path(a).read_bytes()))
    edit_job("horizons", "checkpoint: mote\nhorizons")
    return Path("mote")


def horizon_beyond_positions() -> None:
    path = copy_of_the_checkpoint() / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 12}))
    Path("job.yaml").write_text(Path("job.yaml").read_text().replace("[2, 4]", "[2, 12]"))


def vocabulary_mismatch() -> None:
    path = copy_of_the_checkpoint() / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"].append({"id": 8192, "content": "<|more|>", "special": True, **flags})
    path.write_text(json.dumps(tokenizer))


def no_tokenizer() -> None:
    (copy_of_the_checkpoint() / "tokenizer.json").unlink()


def truncated_shard() -> None:  # T27
    path = sorted(copy_of_the_checkpoint().glob("*.safetensors"))[1]
    path.write_bytes(path.read_bytes()[:-100])


CASES = [
    (unknown_key, "runner: job.yaml: horizon: found an unknown key, allowed: horizons (nearest)"),
    (wrong_type, "runner: job.yaml: horizons.1: found '4', allowed: "),
    (missing_catalog, "runner: prompts.tsv: found no such file"),
    (duplicate_id, "runner: prompts.tsv: line 5: prompt_id: found en-1 again, after line 2, allowed: unique IDs"),
    (empty_prompt, "runner: prompts.tsv: line 5: text: found ''"),
    (invalid_utf8, "runner: prompts.tsv: line 5: found byte 0xff"),
    (layer_out_of_range, "runner: job.yaml: fork.layer: found 12, allowed: 0..11"),
    (horizon_not_increasing, "runner: job.yaml: horizons.1: found 4, allowed: more than 4"),
    (horizon_beyond_positions, "runner: job.yaml: horizons: found 12 after the"),
    (no_checkpoint, "nothing/config.json"),
    (vocabulary_mismatch, "mote/tokenizer.json: vocabulary: found 8193 tokens"),
    (no_tokenizer, "mote/tokenizer.json: found no such file"),
    (truncated_shard, "model-00002-of-00003.safetensors"),
]


@pytest.mark.parametrize(("mistake", "said"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_mistake_is_one_line_and_ends_with_2(run: Command, mistake: object, said: str) -> None:
    mistake()  # type: ignore[operator]
    ended = run("submit", "job.yaml", "--address", "inline")
    assert ended.code == 2
    assert ended.err.count("\n") == 1, ended.err
    assert said in ended.err
    assert ", allowed: " in ended.err
    assert not ended.out
    assert not Path("runs").exists()


def test_with_json_a_mistake_is_a_json_value(run: Command) -> None:
    unknown_key()
    ended = run("submit", "job.yaml", "--json")
    assert ended.code == 2
    assert not ended.err
    assert ended.json["exit_code"] == 2
    assert (ended.json["file"], ended.json["key"], ended.json["found"]) == ("job.yaml", "horizon", "an unknown key")


@pytest.mark.parametrize(
    "arguments", [["submit"], ["nonsense"], ["submit", "job.yaml", "--actors", "0"], ["show"], ["retry", "runs/small"]]
)
def test_wrong_usage_ends_with_2(run: Command, arguments: list[str]) -> None:
    ended = run(*arguments)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert run(*arguments, "--json").json["error"] == "Usage"


@pytest.mark.parametrize("command", ["status", "show", "verify", "resume"])
def test_what_is_no_run_is_named(run: Command, command: str) -> None:
    Path("empty").mkdir()
    ended = run(command, "empty")
    assert ended.code == 2
    assert ended.err == "runner: empty/run.json: found no such file, allowed: the record of a run\n"


def a_file() -> Path:
    Path("file").write_text("mine")
    return Path("file")


def a_circle() -> Path:
    Path("circle").symlink_to("circle")
    return Path("circle")


def a_link_to_nothing() -> Path:
    Path("link").symlink_to("nowhere")
    return Path("link")


UNUSABLE = [
    (a_file, "", "file: found a file"),
    (a_file, "deeper", "file/deeper: found not a directory"),
    (a_file, "deeper/still", "file/deeper/still: found not a directory"),
    (a_circle, "", "circle: found too many levels of symbolic links"),
    (a_circle, "run", "circle/run: found too many levels of symbolic links"),
    (a_link_to_nothing, "", "link: found a link to nothing"),
    (a_link_to_nothing, "run", "link: found a link to nothing"),
    (lambda: Path("n" * 300), "", "found file name too long"),
    (lambda: Path("runs"), "n" * 300, "found file name too long"),
]


@pytest.mark.parametrize(
    "command",
    ["status", "status --watch", "show", "verify", "export", "resume", "retry --failed", "audit", "plan job.yaml --run-dir",
     "submit job.yaml --address inline --run-dir", "submit job.yaml --dry-run --run-dir"],
)  # fmt: skip
@pytest.mark.parametrize(("make", "below", "said"), UNUSABLE)
def test_what_cannot_hold_a_run_is_named(run: Command, make: Callable[[], Path], below: str, said: str, command: str) -> None:
    ended = run(*command.split(), make() / below)
    assert ended.code == 2
    assert ended.err.count("\n") == 1, ended.err
    assert said in ended.err
    assert ", allowed: a run's directory" in ended.err


@pytest.mark.parametrize("command", ["status", "verify", "resume", "submit job.yaml --run-dir", "plan job.yaml --run-dir"])
def test_a_run_that_may_not_be_looked_into_is_named(run: Command, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("closed").mkdir()
    # The superuser may look everywhere, and a directory that cannot even be listed is refused by click.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.X_OK)
    ended = run(*command.split(), "closed")
    assert ended.code == 2
    assert ended.err == "runner: closed: found permission denied, allowed: a run's directory, which this user may read\n"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("job", [], "job: found [], allowed: a mapping"),
        ("job", {"protocol": []}, "job: found "),
        ("job", {"protocol": "nonsense"}, "job: found "),
        ("job", {}, "job: found "),
        ("versions", [], "versions: found [], allowed: a mapping"),
        ("catalog_digest", 1, "catalog_digest: found 1, allowed: a text"),
    ],
)
def test_a_record_that_is_damaged_is_named(run: Command, submitted: Path, field: str, value: object, said: str) -> None:
    path = submitted / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    for command in ("status", "verify", "resume"):
        ended = run(command, submitted)
        assert ended.code == 2
        assert ended.err.count("\n") == 1, ended.err
        assert f"run.json: {said}" in ended.err


@pytest.mark.parametrize("content", ["", "[1]", "{}"])
def test_a_mark_of_finishing_that_is_damaged_is_named(run: Command, submitted: Path, content: str) -> None:
    (submitted / "finished.json").unlink()
    (submitted / "finished.json").write_text(content)
    for command in ("status", "show", "resume", "export"):
        ended = run(command, submitted)
        assert ended.code == 2
        assert ended.err.count("\n") == 1, ended.err
        assert "finished.json: " in ended.err
    ended = run("verify", submitted)  # which goes on to the end, and counts it as a fault
    assert ended.code == 4
    assert "finished.json: " in ended.out


def test_the_list_of_runs_goes_on_after_one_that_cannot_be_read(
    run: Command, submitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(submitted, "runs/damaged")
    Path("runs/damaged/finished.json").unlink()
    Path("runs/damaged/finished.json").write_text("[1]")
    shutil.copytree(submitted, "runs/foreign")
    Path("runs/letter.txt").write_text("mine")
    Path("runs/empty").mkdir()

    read = LocalStorage.read

    def refused(self: LocalStorage, path: Path, limit: int | None = None) -> bytes:
        if path == Path("runs/foreign/finished.json"):  # the superuser, who may run the tests, may read everything
            raise PermissionError(13, "Permission denied", str(path))
        return read(self, path, limit)

    monkeypatch.setattr(LocalStorage, "read", refused)
    found = {one["run"]: one["state"].split(":")[0] for one in run("ls", "runs", "--json").json}
    assert found == {"damaged": "unreadable", "foreign": "unreadable", "small": "finished"}
    assert run("ls", "runs").out.count("unreadable: ") == 2


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("prompts.tsv/deeper", "not a directory"),
        ("n" * 300, "file name too long"),
        ("circle/support", "circle: found file exists"),
    ],
)
def test_tables_cannot_be_written_where_no_folder_can_be(run: Command, submitted: Path, out: str, said: str) -> None:
    a_circle()
    ended = run("export", submitted, "--out", out)
    assert ended.code == 2
    assert ended.err.count("\n") == 1, ended.err
    assert said in ended.err


def test_a_terminal_is_not_made_to_obey_a_path(run: Command) -> None:
    path = "\x1b[31mred\r\n\u202e"
    ended = run("status", path)
    assert ended.code == 2
    assert ended.err.startswith(r"runner: \x1b[31mred\r\n\u202e/run.json: found no such file, ")
    assert run("status", path, "--json").json["file"] == f"{path}/run.json"


def test_a_directory_that_holds_something_else_is_left_alone(run: Command) -> None:
    Path("home").mkdir()
    Path("home/letter.txt").write_text("mine")
    ended = run("submit", "job.yaml", "--address", "inline", "--run-dir", "home")
    assert ended.code == 2
    assert "home: found letter.txt and no run.json" in ended.err
    assert [path.name for path in Path("home").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o722])
def test_a_directory_that_everybody_may_write_to_is_no_place_for_a_run(run: Command, submitted: Path, mode: int) -> None:
    Path("open").mkdir()
    for root in (Path("open"), submitted):
        root.chmod(mode)
        ended = run("submit", "job.yaml", "--address", "inline", "--run-dir", root)
        assert ended.code == 2
        assert f"{root}: found mode {mode:04o}, allowed: a run's directory, to which not everybody may write" in ended.err
        assert run("resume", root, "--address", "inline").code == 2
    assert list(Path("open").iterdir()) == []


def test_a_run_of_another_format_is_one_line(run: Command, submitted: Path) -> None:
    record = submitted / "run.json"
    for other in (2, 4, "3", None):
        content = json.loads(record.read_text()) | {"format": other, "added later": 1}
        record.write_text(json.dumps(content))
        for command in ("status", "resume", "verify", "show"):
            ended = run(command, submitted)
            assert ended.code == 2
            assert ended.err.count("\n") == 1
            assert "run.json: format: found " in ended.err
            assert "allowed: 3, the only one that this release reads" in ended.err


def test_a_bug_shows_its_traceback_and_ends_with_1(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("runner.preflight.load_catalog", broken)
    ended = run("submit", "job.yaml")
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert run("submit", "job.yaml", "--json").json == {"error": "KeyError", "message": "'a bug'", "exit_code": 1}

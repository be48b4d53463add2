"""`runner annotate`: the texts of a run to people and their labels back, as a user does it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from random_runs import CLASSES, RandomRuns
from small_job import Command

from runner.run import Run

Fill = Callable[[Path, Callable[[int, str], tuple[str, str]]], Path]


@pytest.fixture
def finished(event_direction_run: Run, tmp_path: Path) -> Path:
    """A copy of the run that nobody has annotated."""
    return Path(shutil.copytree(event_direction_run.paths.root, tmp_path / "finished"))


@pytest.fixture
def fill(run: Command, finished: Path) -> Fill:
    """Export a form and fill it: place and text of an item -> its two labels."""

    def filled(path: Path, labels: Callable[[int, str], tuple[str, str]]) -> Path:
        assert run("annotate", "export", finished, "--out", path).code == 0
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
        with path.open("w", newline="", encoding="utf-8") as out:
            lines = [[*row[:3], *labels(place, row[2])] for place, row in enumerate(rows[1:])]
            csv.writer(out).writerows([rows[0], *lines])
        return path

    return filled


def money(place: int, text: str) -> tuple[str, str]:
    label = "money" if "$" in text else "other"
    return label, label


def table(run: Command, root: Path, name: str) -> list[dict[str, str]]:
    """A support table of the run, made anew."""
    assert run("export", root).code == 0
    header, *lines = [
        line.split("\t") for line in (root / "support" / f"{name}.tsv").read_text("utf-8").removesuffix("\n").split("\n")
    ]
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_export_says_where_the_forms_are(run: Command, finished: Path) -> None:
    ended = run("annotate", "export", finished)
    assert ended.code == 0
    assert "to be labelled money or other" in ended.out
    for name in ("form.csv", "form.tsv", "items.tsv"):
        assert (finished / "annotations" / name).is_file()
        assert str(finished / "annotations" / name) in ended.out


def test_export_gives_the_same_bytes_every_time(run: Command, finished: Path) -> None:
    run("annotate", "export", finished)
    before = {path.name: path.read_bytes() for path in (finished / "annotations").iterdir()}
    run("annotate", "export", finished)
    assert {path.name: path.read_bytes() for path in (finished / "annotations").iterdir()} == before


def test_agreement_gives_every_class_its_label(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    ended = run("annotate", "import", finished, fill(tmp_path / "form.csv", money), "--json")
    assert ended.code == 0
    score = ended.json
    assert score["agreed"] == score["items"]
    assert score["kappa"] == 1
    assert score["consensus_classes"] == score["provisional_classes"]
    assert sum(score["consensus_classes"].values()) == 2 * CLASSES
    assert run("annotate", "score", finished, "--json").json == score


def test_a_disagreement_leaves_its_classes_undecided(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    form = fill(tmp_path / "form.csv", lambda place, text: ("money", "other") if place == 0 else money(place, text))
    ended = run("annotate", "import", finished, form)
    assert ended.code == 0
    assert "no consensus on 1 items" in ended.out
    unique = table(run, finished, "event_direction_unique_continuations")
    [undecided] = [row for row in unique if not row["consensus"]]
    assert (undecided["annotator_1"], undecided["annotator_2"]) == ("money", "other")
    counts = table(run, finished, "event_direction_counts")
    volume = sum(int(row["consensus_classes"]) for row in counts if row["label"] == "undecided")
    assert volume == int(undecided["classes"])
    assert sum(int(row["consensus_classes"]) for row in counts) == 2 * CLASSES


def test_labels_change_tables_and_no_part_of_the_dataset(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    before = run("verify", finished, "--json").json
    run("annotate", "import", finished, fill(tmp_path / "form.csv", lambda place, text: ("other", "other")))
    after = run("verify", finished, "--json").json
    assert after["clean"]
    assert after["dataset_digest"] == before["dataset_digest"]
    again = run("resume", finished, "--address", "inline")
    assert again.code == 0


def test_one_label_for_everything_has_no_kappa(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    form = fill(tmp_path / "form.csv", lambda place, text: ("other", "other"))
    assert "kappa      undefined" in run("annotate", "import", finished, form).out
    [row] = table(run, finished, "human_annotation_agreement")
    assert row["kappa"] == ""


def test_without_a_filled_form_the_human_tables_are_empty(run: Command, finished: Path) -> None:
    assert table(run, finished, "human_annotation_agreement") == []
    assert table(run, finished, "human_annotation_confusion") == []
    assert {row["consensus_classes"] for row in table(run, finished, "event_direction_counts")} == {""}
    ended = run("annotate", "score", finished)
    assert (ended.code, ended.out) == (2, "")
    assert "found no filled form, allowed: one taken in by `runner annotate import`" in ended.err


def test_a_form_of_another_run_is_refused(run: Command, finished: Path, random_runs: RandomRuns, tmp_path: Path) -> None:
    other = random_runs.run("other-direction", random_runs.event_direction() | {"horizon": 3, "replay_horizon": 3})
    run("annotate", "export", other.paths.root, "--out", tmp_path / "other.csv")
    ended = run("annotate", "import", finished, tmp_path / "other.csv")
    assert ended.code == 2
    assert "this is another run's" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (finished / "annotations").exists()


def test_a_second_filled_form_needs_a_word(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    first = fill(tmp_path / "first.csv", money)
    assert run("annotate", "import", finished, first).code == 0
    assert run("annotate", "import", finished, first).code == 0
    second = fill(tmp_path / "second.csv", lambda place, text: ("other", "other"))
    ended = run("annotate", "import", finished, second)
    assert ended.code == 2
    assert "allowed: the same form, or --replace" in ended.err
    assert run("annotate", "import", finished, second, "--replace").code == 0
    assert run("annotate", "score", finished, "--json").json["consensus_classes"]["money"] == 0


def test_a_kept_form_that_was_changed_is_found(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    run("annotate", "import", finished, fill(tmp_path / "form.csv", money))
    kept = finished / "annotations" / "annotated.csv"
    kept.write_bytes(kept.read_bytes().replace(b"other", b"money"))
    ended = run("annotate", "score", finished)
    assert ended.code == 2
    assert "annotated.csv: found SHA-256" in ended.err


def test_every_annotation_file_has_its_digest(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    run("annotate", "import", finished, fill(tmp_path / "form.csv", money))
    names = set(json.loads((finished / "annotations" / "files.json").read_text()))
    assert names == {"form.csv", "form.tsv", "items.tsv", "annotated.csv"}
    assert names == set(os.listdir(finished / "annotations")) - {"files.json"}  # noqa: PTH208


def test_only_event_direction_is_annotated(run: Command, post_mhc_run: Run) -> None:
    ended = run("annotate", "export", post_mhc_run.paths.root)
    assert ended.code == 2
    assert "protocol: found post_mhc, allowed: event_direction" in ended.err


def test_a_filled_form_is_not_replaced_by_a_blank_one(run: Command, finished: Path, fill: Fill, tmp_path: Path) -> None:
    form = fill(tmp_path / "form.csv", money)
    filled = form.read_bytes()
    ended = run("annotate", "export", finished, "--out", form)
    assert (ended.code, ended.out) == (2, "")
    assert "found another file, maybe a filled form, allowed: a new file" in ended.err
    assert form.read_bytes() == filled


def test_a_form_is_handed_out_into_a_folder_that_is_there(run: Command, finished: Path, tmp_path: Path) -> None:
    ended = run("annotate", "export", finished, "--out", tmp_path / "nowhere" / "form.csv")
    assert ended.code == 2
    assert "found no such folder" in ended.err


def test_a_form_is_handed_out_under_a_name_that_says_its_format(run: Command, finished: Path, tmp_path: Path) -> None:
    ended = run("annotate", "export", finished, "--out", tmp_path / "form.txt")
    assert ended.code == 2
    assert "allowed: .csv or .tsv" in ended.err

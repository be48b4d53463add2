"""Support tables of event direction against the raw rows on disk."""

from __future__ import annotations

import csv
import io
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from runner.annotation.files import Annotation
from runner.cli.export import write_tables
from runner.run import Run, open_run
from runner.support.event_direction_unique_continuations import EVENT_DIRECTION_UNIQUE_CONTINUATIONS


@pytest.fixture
def annotated(event_direction_run: Run, tmp_path: Path) -> Run:
    """A copy of the run whose first item the annotators call money and other, and all others other."""
    run = open_run(Path(shutil.copytree(event_direction_run.paths.root, tmp_path / "run")))
    annotation = Annotation.of(run)
    form = annotation.export()["form.csv"]
    rows = list(csv.reader(io.StringIO(form.read_text("utf-8"), newline="")))
    path = tmp_path / "filled.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        first = [[*row[:3], "other" if place else "money", "other"] for place, row in enumerate(rows[1:])]
        csv.writer(out).writerows([rows[0], *first])
    annotation.take(path, replace=False)
    write_tables(run, tmp_path)
    return run


def lines(run: Run, name: str) -> list[dict[str, str]]:
    header, *rows = [
        line.split("\t") for line in (run.paths.root.parent / f"{name}.tsv").read_text("utf-8").removesuffix("\n").split("\n")
    ]
    assert rows, f"{name}: a table without rows would satisfy any loop over it"
    return [dict(zip(header, row, strict=True)) for row in rows]


def raw(run: Run, table: str) -> list[dict[str, Any]]:
    """Rows as any reader of Parquet finds them."""
    return ds.dataset(run.paths.table(table)).to_table().to_pylist()


def test_unique_continuations_are_the_distinct_texts_with_their_classes(annotated: Run) -> None:
    volumes = Counter((row["prompt_id"], row["text"]) for row in raw(annotated, "event_direction_classes"))
    found = {
        (line["prompt_id"], line["text"]): int(line["classes"])
        for line in lines(annotated, "event_direction_unique_continuations")
    }
    assert found == volumes


def test_counts_are_classes_by_label(annotated: Run) -> None:
    rows = raw(annotated, "event_direction_classes")
    drawn = {(row["prompt_id"], row["structural_class"]) for row in raw(annotated, "event_direction_replays")}
    counted = lines(annotated, "event_direction_counts")
    for line in counted:
        money = [row for row in rows if row["prompt_id"] == line["prompt_id"] and "$" in row["text"]]
        if line["label"] == "money":
            assert int(line["provisional_classes"]) == len(money)
            assert int(line["provisional_items"]) == len({row["text"] for row in money})
            assert int(line["drawn"]) == sum((row["prompt_id"], row["structural_class"]) in drawn for row in money)
    assert sum(int(line["provisional_classes"]) for line in counted) == len(rows)
    assert sum(int(line["consensus_classes"]) for line in counted) == len(rows)


def test_consensus_goes_to_the_classes_by_exact_text(annotated: Run) -> None:
    first = min(lines(annotated, "event_direction_unique_continuations"), key=lambda line: line["item"])
    undecided = sum(
        row["text"] == first["text"] and row["prompt_id"] == first["prompt_id"]
        for row in raw(annotated, "event_direction_classes")
    )
    assert first["consensus"] == ""
    assert [
        int(line["consensus_classes"])
        for line in lines(annotated, "event_direction_counts")
        if (line["prompt_id"], line["label"]) == (first["prompt_id"], "undecided")
    ] == [undecided]


def test_agreement_and_confusion_by_hand(annotated: Run) -> None:
    items = len({(row["prompt_id"], row["text"]) for row in raw(annotated, "event_direction_classes")})
    [line] = lines(annotated, "human_annotation_agreement")
    assert (int(line["items"]), int(line["agreed"]), int(line["without_consensus"])) == (items, items - 1, 1)
    # The second annotator has one label, so chance alone gives the observed agreement: p_o = p_e = (items - 1) / items.
    assert float(line["kappa"]) == 0
    confusion = {
        (one["annotator_1"], one["annotator_2"]): int(one["items"]) for one in lines(annotated, "human_annotation_confusion")
    }
    assert confusion == {
        ("money", "money"): 0, ("money", "other"): 1, ("other", "money"): 0, ("other", "other"): items - 1,
    }  # fmt: skip


def test_replay_branches_say_what_the_first_replay_said(annotated: Run) -> None:
    said = {
        (row["prompt_id"], row["structural_class"]): row["text"]
        for row in raw(annotated, "event_direction_replays")
        if row["run"] == 1
    }
    found = lines(annotated, "replay_branches")
    assert {(line["prompt_id"], int(line["structural_class"])): line["text"] for line in found} == said
    assert all(line["text"].startswith(line["prefix"]) for line in found)


def test_replay_pairs_compare_both_executions(annotated: Run) -> None:
    rows = raw(annotated, "event_direction_replays")
    found = lines(annotated, "replay_pairs")
    assert len(found) == len(rows) / 2
    for line in found:
        both = [
            row
            for row in rows
            if (row["prompt_id"], str(row["structural_class"])) == (line["prompt_id"], line["structural_class"])
        ]
        assert sorted(row["run"] for row in both) == [1, 2]
        assert line["token_ids_exact"] == ("yes" if both[0]["token_ids"] == both[1]["token_ids"] else "no") == "yes"
        assert {line["token_sha256_1"], line["token_sha256_2"]} == {row["token_sha256"] for row in both}
        assert line["metadata_consistent"] == "yes"


def test_a_text_of_several_lines_is_one_cell() -> None:
    table = EVENT_DIRECTION_UNIQUE_CONTINUATIONS
    row = {column.name: "" for column in table.columns} | {"text": "他说\n\t两行\\"}
    assert table.to_tsv([row]).splitlines()[1].split("\t")[2] == r"他说\n\t两行\\"

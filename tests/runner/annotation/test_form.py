"""The blind form out and in."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from runner.annotation.form import Format, FormItem, form_items, read_form, to_bytes
from runner.protocols.event_direction_sample import Item
from schemas.errors import InvalidInput

TEXTS = ["，说他们公司要招人", "two\nlines\r\n\tand a tab", '"quoted", \\n and a comma', " outer space ", "=1+1", ""]
ITEMS = [Item("zh-1", text, (place, place + 50), "hiring") for place, text in enumerate(TEXTS)]
LABELS = ("layoffs", "hiring", "other")


def lines() -> list[FormItem]:
    return form_items(ITEMS, {"zh-1": "朋友昨天打来电话"}, {"checkpoint": "c"})


def filled(folder: Path, form: Format = "csv", labels: tuple[str, str] = ("other", "hiring")) -> Path:
    """The form with the same two labels in every line, written as a spreadsheet would."""
    path = folder / f"form.{form}"
    text = to_bytes(lines(), form).decode()
    if form == "tsv":
        rows = text.removesuffix("\n").split("\n")
        path.write_text("".join([rows[0] + "\n", *(row[:-1] + "\t".join(labels) + "\n" for row in rows[1:])]), newline="")
        return path
    rows_of_csv = list(csv.reader(io.StringIO(text, newline="")))
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([rows_of_csv[0], *([*row[:3], *labels] for row in rows_of_csv[1:])])
    return path


def change(path: Path, old: str, new: str) -> Path:
    text = path.read_bytes().decode()
    assert old in text
    path.write_bytes(text.replace(old, new, 1).encode())
    return path


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_what_goes_out_comes_back_whatever_the_text(tmp_path: Path, form: Format) -> None:
    given = read_form(filled(tmp_path, form), lines(), LABELS, "runs/x")
    assert given == {line.item: ("other", "hiring") for line in lines()}


def test_the_form_is_blind() -> None:
    for form in ("csv", "tsv"):
        text = to_bytes(lines(), form).decode()
        header = text.splitlines()[0].replace('"', "").replace("\t", ",")
        assert header == "item,prompt,continuation,annotator_1,annotator_2"
    rows = list(csv.reader(io.StringIO(to_bytes(lines(), "csv").decode(), newline="")))[1:]
    assert {row[1] for row in rows} == {"[朋友昨天打来电话]"}
    assert sorted(row[2] for row in rows) == sorted(f"[{text}]" for text in TEXTS)
    assert all(row[3:] == ["", ""] for row in rows)


def test_the_order_says_nothing_of_counts_and_is_the_same_every_time() -> None:
    fewer = [Item(item.prompt_id, item.text, item.classes[:1], "other") for item in reversed(ITEMS)]
    again = form_items(fewer, {"zh-1": "朋友昨天打来电话"}, {"checkpoint": "c"})
    assert again == lines()
    assert [line.text for line in again] != TEXTS


def test_an_item_is_bound_to_text_prompt_and_experiment() -> None:
    ids = {line.item for line in lines()}
    assert len(ids) == len(TEXTS)
    for other in (
        form_items(ITEMS, {"zh-1": "another prompt"}, {"checkpoint": "c"}),
        form_items(ITEMS, {"zh-1": "朋友昨天打来电话"}, {"checkpoint": "d"}),
    ):
        assert ids.isdisjoint(line.item for line in other)


def test_no_cell_is_a_formula() -> None:
    for row in list(csv.reader(io.StringIO(to_bytes(lines(), "csv").decode(), newline=""))):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def fault(path: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_form(path, lines(), LABELS, "runs/x")
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_another_runs_form_is_refused(tmp_path: Path) -> None:
    path = change(filled(tmp_path), lines()[0].item, "0123456789ab")
    assert fault(path) == "row 1: item: found '0123456789ab', allowed: an item of the form of runs/x (this is another run's)"


def test_a_missing_item_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path, "tsv")
    path.write_text("\n".join(path.read_text().split("\n")[:-2]) + "\n", newline="")
    assert fault(path) == f"item {lines()[-1].item}: found no line for it and 0 others, allowed: every item of the form"


def test_an_item_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path, "tsv")
    path.write_text(path.read_text() + path.read_text().split("\n")[1] + "\n", newline="")
    assert fault(path) == f"item {lines()[0].item}: found it again in row {len(TEXTS) + 1}, allowed: each item once"


@pytest.mark.parametrize(("label", "found"), [("fired", "'fired'"), ("", "no label"), ("Hiring", "'Hiring'")])
def test_an_unknown_label_is_refused(tmp_path: Path, label: str, found: str) -> None:
    path = filled(tmp_path, labels=("other", label))
    assert fault(path) == f"item {lines()[0].item}: annotator_2: found {found}, allowed: layoffs or hiring or other"


def test_space_around_a_label_does_not_count(tmp_path: Path) -> None:
    given = read_form(filled(tmp_path, labels=(" other ", "hiring")), lines(), LABELS, "runs/x")
    assert set(given.values()) == {("other", "hiring")}


def test_a_changed_text_is_refused(tmp_path: Path) -> None:
    assert "continuation: found '[=1+2]', allowed: the text as it was handed out, '[=1+1]'" in fault(
        change(filled(tmp_path), "[=1+1]", "[=1+2]")
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "line 1: found ''"),
        (
            "item;prompt\n",
            "line 1: found 'item;prompt', allowed: the header item, prompt, continuation, annotator_1, annotator_2",
        ),
        ("item,prompt,continuation,annotator_1,annotator_2\nx,y\n", "row 1: found 2 fields, allowed: 5 fields"),
        ('item,prompt,continuation,annotator_1,annotator_2\n"x', "found bad CSV"),
    ],
)
def test_what_is_no_form_is_refused(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "form.csv"
    path.write_text(content)
    assert fault(path).startswith(line)


def test_what_spreadsheets_do_to_a_file_does_not_count(tmp_path: Path) -> None:
    """A byte-order mark, and other line ends in lines and in texts."""
    path = filled(tmp_path)
    for name, ends in (("lf.csv", b"\n"), ("crlf.csv", b"\r\n")):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", ends))
        assert len(read_form(tmp_path / name, lines(), LABELS, "runs/x")) == len(TEXTS)


def test_a_bad_escape_is_refused(tmp_path: Path) -> None:
    path = change(filled(tmp_path, "tsv"), "[=1+1]", r"[\x]")
    assert fault(path).startswith(r"found the escape '\\x'")


def test_the_name_says_the_format(tmp_path: Path) -> None:
    path = tmp_path / "form.xlsx"
    path.write_bytes(b"PK")
    assert fault(path) == "found a name that ends with '.xlsx', allowed: .csv or .tsv"

"""The blind form: what annotators see, and how a filled one is read back (docs/formats.md, "Annotation form").

It has one line an exact text and says nothing else: no class, no count, no provisional label, and an order that follows from
hashes. A text stands between brackets, so that white space at its ends can be seen and no spreadsheet takes it for a formula.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from runner.checked_json import canonical_json
from runner.protocols.event_direction_sample import Item
from schemas.errors import InvalidInput
from schemas.text_file import decode_text, read_text, shown

ANNOTATORS = ("annotator_1", "annotator_2")
HEADER = ("item", "prompt", "continuation", *ANNOTATORS)
MAX_BYTES = 16 << 20

Format = Literal["csv", "tsv"]
ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
UNESCAPED = {escape: character for character, escape in ESCAPES.items()}


@dataclass(frozen=True)
class FormItem:
    """One line of the form. item: its ID, which binds the text, the prompt, the fork and the checkpoint."""

    item: str
    prompt: str
    text: str


def form_items(found: Sequence[Item], prompts: Mapping[str, str], experiment: Mapping[str, object]) -> list[FormItem]:
    """The form's lines. prompts: prompt ID -> text. experiment: whatever else two runs with equal items share.

    An ID is a hash, and IDs give the order: it is the same every time and tells nothing of where a text came from.
    """
    lines = []
    for item in found:
        prompt = prompts[item.prompt_id]
        meaning = canonical_json({"experiment": experiment, "prompt": prompt, "text": item.text})
        lines.append(FormItem(hashlib.sha256(meaning.encode()).hexdigest()[:12], prompt, item.text))
    return sorted(lines, key=lambda line: line.item)


def format_of(path: PurePath) -> Format:
    """The format that a file's name asks for. Raises InvalidInput for another name."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return "csv"
    if suffix == ".tsv":
        return "tsv"
    raise InvalidInput(str(path), "", f"a name that ends with {shown(path.suffix)}", ".csv or .tsv")


def to_bytes(lines: Sequence[FormItem], form: Format) -> bytes:
    """The blank form. In CSV a text of several lines is one quoted field; in TSV its line ends are escaped as in a catalog."""
    rows = [list(HEADER), *([line.item, f"[{line.prompt}]", f"[{line.text}]", "", ""] for line in lines)]
    if form == "tsv":
        return "".join("\t".join(_escaped(field) for field in row) + "\n" for row in rows).encode()
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)  # all: a bare CR would not be quoted else
    return out.getvalue().encode()


def read_form(
    path: PurePath, lines: Sequence[FormItem], labels: Sequence[str], run: str, *, data: bytes | None = None
) -> dict[str, tuple[str, str]]:
    """Item -> the two labels of a filled form. data: its content, where it is known already.

    Raises InvalidInput with the first fault: not such a form, an item of another run, a changed text, an item twice or missing, a
    label that is missing or none of `labels`.
    """
    file = str(path)
    rows = _rows(path, data)
    if not rows or tuple(rows[0]) != HEADER:
        raise InvalidInput(file, "line 1", shown(",".join(rows[0]) if rows else ""), "the header " + ", ".join(HEADER))
    known = {line.item: line for line in lines}
    labelled: dict[str, tuple[str, str]] = {}
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(HEADER):
            raise InvalidInput(file, f"row {number}", f"{len(row)} fields", f"{len(HEADER)} fields")
        item, prompt, text, *given = row
        if item not in known:
            raise InvalidInput(file, f"row {number}: item", shown(item), f"an item of the form of {run} (this is another run's)")
        where = f"item {item}"
        if item in labelled:
            raise InvalidInput(file, where, f"it again in row {number}", "each item once")
        for column, found, was in (("prompt", prompt, known[item].prompt), ("continuation", text, known[item].text)):
            if _lines(found) != _lines(f"[{was}]"):
                raise InvalidInput(
                    file, f"{where}: {column}", shown(found), f"the text as it was handed out, {shown(f'[{was}]')}"
                )
        stripped = [label.strip() for label in given]
        for annotator, label in zip(ANNOTATORS, stripped, strict=True):
            if label not in labels:
                raise InvalidInput(file, f"{where}: {annotator}", shown(label) if label else "no label", " or ".join(labels))
        labelled[item] = (stripped[0], stripped[1])
    missing = [line.item for line in lines if line.item not in labelled]
    if missing:
        raise InvalidInput(file, f"item {missing[0]}", f"no line for it and {len(missing) - 1} others", "every item of the form")
    return labelled


def _rows(path: PurePath, data: bytes | None) -> list[list[str]]:
    # Spreadsheets write a byte-order mark.
    if data is None:
        text = read_text(Path(path), max_bytes=MAX_BYTES, allow_bom=True)
    else:
        text = decode_text(data, str(path), max_bytes=MAX_BYTES, allow_bom=True)
    if format_of(path) == "tsv":
        lines = text.removesuffix("\n").split("\n")
        return [[_unescaped(path, field) for field in line.removesuffix("\r").split("\t")] for line in lines]
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InvalidInput(str(path), "", f"bad CSV ({error})", "CSV as the form was exported") from None


def _lines(text: str) -> list[str]:
    """A text without its kind of line ends, which spreadsheets change."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _escaped(field: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in field)


def _unescaped(path: PurePath, field: str) -> str:
    for escape in re.findall(r"\\.?", field, re.DOTALL):
        if escape not in UNESCAPED:
            raise InvalidInput(str(path), "", f"the escape {shown(escape)}", r"\t, \n, \r and \\")
    return re.sub(r"\\.", lambda match: UNESCAPED[match[0]], field)

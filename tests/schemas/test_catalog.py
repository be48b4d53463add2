"""Prompt catalogs: what is read, every fault with its line, composition and bindings."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.catalog import (
    MAX_BYTES,
    MAX_PROMPTS,
    MAX_TEXT_BYTES,
    Catalog,
    Prompt,
    check_bindings,
    check_composition,
    load_catalog,
)
from schemas.errors import InvalidInput
from schemas.job import Composition
from schemas.text_file import BIDI

HEADER = "prompt_id\tlanguage\tkind\ttext\n"
ROWS = "en-1\ten\tordinary\tOne day\nzh-1\tzh\tsensitivity\t有一天\n"
SWAPPED = "".join(reversed(ROWS.splitlines(keepends=True)))


def catalog_of(folder: Path, content: str | bytes) -> Catalog:
    path = folder / "prompts.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_catalog(path)


def refusal(folder: Path, content: str | bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        catalog_of(folder, content)
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(folder / "prompts.tsv")
    return caught.value


def test_prompts_are_read_in_order(tmp_path: Path) -> None:
    assert catalog_of(tmp_path, HEADER + ROWS).prompts == (
        Prompt("en-1", "en", "ordinary", "One day"),
        Prompt("zh-1", "zh", "sensitivity", "有一天"),
    )


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("有一天\n", "有一天")])
def test_line_ends_change_neither_prompts_nor_digest(tmp_path: Path, change: tuple[str, str]) -> None:
    before = catalog_of(tmp_path, HEADER + ROWS)
    after = catalog_of(tmp_path, (HEADER + ROWS).replace(*change))
    assert (after.prompts, after.digest) == (before.prompts, before.digest)


def test_escapes_are_resolved(tmp_path: Path) -> None:
    assert catalog_of(tmp_path, HEADER + "a\ten\tordinary\t1\\t2\\n3\\r4\\\\n5\n").prompts[0].text == "1\t2\n3\r4\\n5"


def test_a_prompt_is_bound_to_its_utf8_bytes(tmp_path: Path) -> None:
    prompt = catalog_of(tmp_path, HEADER + ROWS).prompts[1]
    assert prompt.sha256 == hashlib.sha256("有一天".encode()).hexdigest()


@pytest.mark.parametrize("text", ["  One", "One ", "e\u0301", "\u00e9", 'say "no"', "a\u2028b", "#", "\u3000a"])
def test_text_is_not_trimmed_normalised_or_unquoted(tmp_path: Path, text: str) -> None:
    assert catalog_of(tmp_path, HEADER + f"a\ten\tordinary\t{text}\n").prompts[0].text == text


@pytest.mark.parametrize(
    ("rows", "key", "found"),
    [
        ("en-1\ten\tordinary\tOne\nen-1\ten\tordinary\tTwo\n", "line 3: prompt_id", "en-1 again, after line 2"),
        ("en-1\ten\tordinary\tOne\nEN-1\ten\tordinary\tTwo\n", "line 3: prompt_id", "EN-1 again, after line 2"),
        ("en-1\ten\tordinary\tOne\nen-2\ten\tordinary\tOne\n", "line 3: text", "the text of line 2 again"),
        ("en-1\ten\tordinary\ta\\tb\nen-2\ten\tordinary\t\\\\\n\nen-3\ten\tordinary\tx\n", "line 4", "an empty line"),
        ("en-1\ten\tordinary\t\n", "line 2: text", "''"),
        ("en-1\ten\tordinary\t \u3000\\n\n", "line 2: text", r"' \u3000\n'"),
        ("en-1\ten\tordinary\n", "line 2", "3 fields"),
        ("en-1\n", "line 2", "1 field"),
        ("en-1\ten\tordinary\ta\tb\n", "line 2", "5 fields"),
        ("../x\ten\tordinary\ta\n", "line 2: prompt_id", "'../x'"),
        ("..\ten\tordinary\ta\n", "line 2: prompt_id", "'..'"),
        ("a/b\ten\tordinary\ta\n", "line 2: prompt_id", "'a/b'"),
        ("\ten\tordinary\ta\n", "line 2: prompt_id", "''"),
        ("早\ten\tordinary\ta\n", "line 2: prompt_id", "'早'"),
        ("a" * 65 + "\ten\tordinary\ta\n", "line 2: prompt_id", "'" + "a" * 58 + "…"),
        ("a\tEnglish\tordinary\ta\n", "line 2: language", "'English'"),
        ("a\t\tordinary\ta\n", "line 2: language", "''"),
        ("a\ten\tsensitvity\ta\n", "line 2: kind", "'sensitvity'"),
        ("a\ten\tordinary\ta\\x\n", "line 2: text", r"the escape '\\x'"),
        ("a\ten\tordinary\ta\\\n", "line 2: text", r"the escape '\\'"),
        ("a\ten\tordinary\ta\rb\n", "line 2: text", "the character U+000D"),
        ("a\ten\tordinary\ta\x1b[2J\n", "line 2: text", "the character U+001B"),
        ("a\ten\tordinary\ta\x85b\n", "line 2: text", "the character U+0085"),
        ("a\ten\tordinary\t" + "x" * (MAX_TEXT_BYTES + 1) + "\n", "line 2: text", f"{MAX_TEXT_BYTES + 1} bytes"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, rows: str, key: str, found: str) -> None:
    error = refusal(tmp_path, HEADER + rows)
    assert (error.key, error.found) == (key, found)


@pytest.mark.parametrize("content", ["", "\n", "prompt_id,language,kind,text\n", "prompt_id\tlanguage\ttext\tkind\n", ROWS])
def test_another_header_is_refused(tmp_path: Path, content: str) -> None:
    error = refusal(tmp_path, content)
    assert (error.key, error.allowed) == ("line 1", "the header prompt_id<tab>language<tab>kind<tab>text")


def test_a_catalog_without_prompts_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, HEADER).found == "no prompt"


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, (HEADER + ROWS).encode() + "x\tzh\tordinary\t有".encode("gb18030"))
    assert (error.key, error.allowed) == ("line 4", "UTF-8")


def test_a_byte_order_mark_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, (HEADER + ROWS).encode("utf-8-sig")).found == "a byte-order mark"


def test_a_missing_catalog_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.tsv: found no such file or directory, allowed: a readable file"):
        load_catalog(tmp_path / "none.tsv")


def test_too_many_prompts_are_refused(tmp_path: Path) -> None:
    content = HEADER + "x\n" * (MAX_PROMPTS + 1)
    assert refusal(tmp_path, content).found == f"{MAX_PROMPTS + 1} prompts"


def test_too_many_bytes_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"x" * (MAX_BYTES + 1)).found == f"more than {MAX_BYTES} bytes"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("One day", "One  day"),
        ("en-1", "en-2"),
        ("sensitivity", "ordinary"),
        ("zh\t", "zh-Hant\t"),
        (ROWS, SWAPPED),
    ],
)
def test_the_digest_follows_every_field_and_the_order(tmp_path: Path, old: str, new: str) -> None:
    changed = (HEADER + ROWS).replace(old, new)
    assert changed != HEADER + ROWS
    assert catalog_of(tmp_path, changed).digest != catalog_of(tmp_path, HEADER + ROWS).digest


def test_a_composition_that_agrees_passes(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, HEADER + ROWS)
    check_composition(
        catalog, Composition(languages={"en": 1, "zh": 1, "fr": 0}, kinds={"ordinary": 1, "sensitivity": 1}), job_file="j"
    )
    check_composition(catalog, Composition(languages={"en": 1, "zh": 1}), job_file="j")


@pytest.mark.parametrize(
    ("composition", "key", "found", "allowed"),
    [
        (Composition(languages={"en": 2, "zh": 1}), "composition.languages.en", "1 prompt", "2"),
        (Composition(languages={"en": 1}), "composition.languages.zh", "1 prompt", "0"),
        (Composition(languages={"en": 1, "zh": 1, "fr": 1}), "composition.languages.fr", "0 prompts", "1"),
        (Composition(kinds={"ordinary": 2}), "composition.kinds.ordinary", "1 prompt", "2"),
    ],
)
def test_a_composition_that_differs_names_the_count(
    tmp_path: Path, composition: Composition, key: str, found: str, allowed: str
) -> None:
    catalog = catalog_of(tmp_path, HEADER + ROWS)
    with pytest.raises(InvalidInput) as caught:
        check_composition(catalog, composition, job_file="job.yaml")
    error = caught.value
    assert (error.file, error.key, error.found, error.allowed) == ("job.yaml", key, f"{found} in {catalog.file}", allowed)


def test_changed_bytes_under_a_used_id_are_refused(tmp_path: Path) -> None:
    recorded = catalog_of(tmp_path, HEADER + ROWS).bindings
    changed = catalog_of(tmp_path, (HEADER + ROWS).replace("One day", "One day "))
    with pytest.raises(InvalidInput) as caught:
        check_bindings(changed, recorded)
    assert (caught.value.file, caught.value.key) == (changed.file, "en-1")
    assert caught.value.found == f"text with SHA-256 {changed.prompts[0].sha256[:16]}…"
    assert caught.value.allowed.startswith(recorded["en-1"][:16])


def test_new_and_unused_ids_keep_their_bindings(tmp_path: Path) -> None:
    check_bindings(catalog_of(tmp_path, HEADER + ROWS), {"en-1": hashlib.sha256(b"One day").hexdigest(), "gone": "0" * 64})


@pytest.mark.parametrize("code", [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_controls_of_the_direction_of_writing_are_refused(tmp_path: Path, code: int) -> None:
    with pytest.raises(InvalidInput, match=f"line 2: text: found the character U\\+{code:04X}, allowed: text without controls"):
        catalog_of(tmp_path, f"{HEADER}a\ten\tordinary\tone{chr(code)}two\n")


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_every_text_can_be_written(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    path = tmp_path_factory.getbasetemp() / "written.tsv"
    path.write_bytes(f"{HEADER}a\ten\tordinary\t{escaped}\n".encode())
    controls = any((ord(one) < 32 and one not in "\t\n\r") or 127 <= ord(one) < 160 for one in text)
    if controls or BIDI.search(text) or not text.strip():
        with pytest.raises(InvalidInput):
            load_catalog(path)
    else:
        assert load_catalog(path).prompts[0].text == text

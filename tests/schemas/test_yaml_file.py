"""YAML of job files: what is read, and every form that is refused, with its line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InvalidInput
from schemas.yaml_file import MAX_BYTES, MAX_DEPTH, MAX_NODES, load_mapping, parse_value

BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 8)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_value(text, file="job.yaml")
    assert "\n" not in str(caught.value)
    assert caught.value.file == "job.yaml"
    return caught.value


def test_plain_values_are_read() -> None:
    text = "a: 1\nb: [x, 2.5, null, true]\nc: {d: 早}\n"
    assert parse_value(text, file="f") == {"a": 1, "b": ["x", 2.5, None, True], "c": {"d": "早"}}


def test_what_is_quoted_is_text_however_it_is_spelled() -> None:
    assert parse_value("a: ['010', \"1:30\", 'yes', \"1_0\"]\n", file="f") == {"a": ["010", "1:30", "yes", "1_0"]}


def test_an_empty_text_is_nothing() -> None:
    assert parse_value("", file="f") is None


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3", "the key 'a' twice"),
        ("a: {b: 1, b: 2}\n", "line 1", "the key 'b' twice"),
        ("a: &x 1\n", "line 1", "an anchor or alias"),
        ("a: 1\nb: *x\n", "line 2", "an anchor or alias"),
        (BOMB, "line 1", "an anchor or alias"),
        ("a: !!python/object/apply:os.system [x]\n", "line 1", "the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("a: !!str 1\n", "line 1", "the tag 'tag:yaml.org,2002:str'"),
        ("a: !mine 1\n", "line 1", "the tag '!mine'"),
        ("<<: {a: 1}\n", "line 1", "the key '<<'"),
        ("no: 25\n", "line 1", "the key 'no'"),
        ("1: a\n", "line 1", "the key '1'"),
        ("? [a]\n: b\n", "line 1", "the key a list of 1"),
        ("a: 1\n---\nb: 2\n", "line 2", "bad YAML (another document)"),
        ("a: [1\n", "line 2", "bad YAML (expected ',' or ']', but got '<stream end>')"),
        ("a: 1\n\tb: 2\n", "line 2", "bad YAML (found character '\\t' that cannot start any token)"),
        ("a:\n  b: 2026-13-01\n", "line 2", "'2026-13-01'"),
        ("a: 1\nb: \x01\n", "line 2", "the character U+0001"),
        ("a: 1\nb: \u202e1\n", "line 2", "the character U+202E"),
        ("a: 1 # \u2066 a comment\n", "line 1", "the character U+2066"),
        *(
            (f"a: 1\nb: {text}\n", "line 2", f"'{text}'")
            for text in (
                "010",
                "-010",
                "00",
                "1:30",
                "190:20:30",
                "1_000",
                "0x1F",
                "0b11",
                "1:30.5",
                ".inf",
                "-.INF",
                ".nan",
                "1_0.5",
            )
        ),
        *((f"a: [1, {text}]\n", "line 1", f"'{text}'") for text in ("yes", "no", "On", "OFF", "Yes")),
    ],
)
def test_misleading_forms_are_refused(text: str, line: str, found: str) -> None:
    error = refusal(text)
    assert (error.key, error.found) == (line, found)


def test_an_integer_with_too_many_digits_is_refused() -> None:
    assert refusal("a: " + "9" * 5000).found.startswith("'9999")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_a_hundred_thousand_levels_are_refused(opening: str) -> None:
    assert refusal(opening * 100_000).found == f"values nested deeper than {MAX_DEPTH}"


def test_the_depth_limit_is_exact() -> None:
    def nested(levels: int) -> str:
        return "[" * (levels - 1) + "1" + "]" * (levels - 1)

    assert parse_value(nested(MAX_DEPTH), file="f")
    assert refusal(nested(MAX_DEPTH + 1)).found == f"values nested deeper than {MAX_DEPTH}"


def test_the_limit_on_values_is_exact() -> None:
    assert len(parse_value("[" + "1," * (MAX_NODES - 1) + "]", file="f")) == MAX_NODES - 1
    assert refusal("[" + "1," * MAX_NODES + "]").found == f"more than {MAX_NODES} values"


def test_a_file_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidInput, match="found more than 1048576 bytes"):
        load_mapping(path)


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ("- a\n", "a list of 1"), ("text\n", "'text'")])
def test_the_top_must_be_a_mapping(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_mapping(path)
    assert (caught.value.found, caught.value.allowed) == (found, "a mapping of keys to values")


@given(st.text(alphabet=st.sampled_from("ab:-?[]{},&*!|>%@`#'\"\\ \n\t\r<=09.\x85\u2028\ufeff早"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_value(text, file="f")

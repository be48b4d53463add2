"""Files from anybody: what is refused before anything in them is read."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from schemas.errors import InvalidInput
from schemas.text_file import read_text, shown


def refusal(path: Path, max_bytes: int = 1000) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read_text(path, max_bytes=max_bytes)
    assert "\n" not in str(caught.value)
    return caught.value


def test_text_comes_back_with_its_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("早\r\nb\rc\n".encode())
    assert read_text(path, max_bytes=1000) == "早\r\nb\rc\n"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path / "missing.tsv")
    assert (error.file, error.found) == (str(tmp_path / "missing.tsv"), "no such file or directory")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).found == "a directory"


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").found == "a device or pipe"


def test_a_device_is_refused() -> None:
    assert refusal(Path("/dev/zero")).found == "a device or pipe"


def test_a_path_with_a_nul_is_refused() -> None:
    assert "null" in refusal(Path("a\0b")).found


def test_the_size_limit_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345678")
    assert read_text(path, max_bytes=8) == "12345678"
    assert refusal(path, max_bytes=7).found == "more than 7 bytes"


def test_a_byte_order_mark_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert refusal(path).found == "a byte-order mark"


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("早\nb\n".encode() + b"c\xff")
    error = refusal(path)
    assert (error.key, error.found, error.allowed) == ("line 3", "byte 0xff at offset 7", "UTF-8")


def test_an_encoded_surrogate_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xed\xa0\x80")
    assert refusal(path).key == "line 1"


def test_a_nul_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\nb\0")
    error = refusal(path)
    assert (error.key, error.found) == ("line 2", "a NUL character")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        (True, "true"),
        (5.0, "5.0"),
        ("a\nb", r"'a\nb'"),
        (date(2026, 1, 2), "the date 2026-01-02"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping of 1"),
        ([1, 2], "a list of 2"),
    ],
)
def test_values_are_shown_in_one_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_long_values_are_clipped() -> None:
    assert shown("x" * 1000, limit=10) == "'xxxxxxxx…"

"""`--set key=value`: how an option is read and where its value goes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import InvalidInput
from schemas.overrides import apply_overrides, parse_override


def applied(data: dict[str, Any], *texts: str) -> dict[str, Any]:
    return apply_overrides(data, [parse_override(text) for text in texts])


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a=1", ("a",), 1),
        ("a.b=x", ("a", "b"), "x"),
        ("a=", ("a",), None),
        ("a=null", ("a",), None),
        ("a=b=c", ("a",), "b=c"),
        ("a=[1, 2]", ("a",), [1, 2]),
        ("a='1'", ("a",), "1"),
    ],
)
def test_an_option_is_a_path_and_a_yaml_value(text: str, path: tuple[str, ...], value: object) -> None:
    override = parse_override(text)
    assert (override.path, override.value) == (path, value)


@pytest.mark.parametrize("text", ["", "a", "=1", "a..b=1", ".a=1", "a.=1", ".".join("a" * 17) + "=1"])
def test_an_option_without_a_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_override(text)
    assert caught.value.allowed == "key.path=value, such as fork.layer=3"


@pytest.mark.parametrize("value", ["&a 1", "*a", "!!python/name:os.system", "[", "{a: 1, a: 2}"])
def test_a_value_is_as_plain_as_a_files(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_override(f"key={value}")
    assert caught.value.file.startswith("--set key=")


def test_the_data_given_is_left_alone() -> None:
    data = {"a": {"b": [1, 2]}}
    assert applied(data, "a.b.1=3") == {"a": {"b": [1, 3]}}
    assert data == {"a": {"b": [1, 2]}}


def test_a_later_option_wins() -> None:
    assert applied({}, "a=1", "a=2") == {"a": 2}


@pytest.mark.parametrize("data", [{}, {"a": None}])
def test_a_mapping_that_is_left_out_is_made(data: dict[str, Any]) -> None:
    assert applied(data, "a.b=1") == {"a": {"b": 1}}


@pytest.mark.parametrize("index", ["2", "-1", "x", "01", "²", "9" * 5000])
def test_an_index_outside_the_list_is_refused(index: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        applied({"a": [1, 2]}, f"a.{index}=3")
    assert caught.value.allowed == "an index 0..1"


def test_a_key_under_a_plain_value_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        applied({"a": 1}, "a.b=2")
    assert (caught.value.key, caught.value.found) == ("a.b", "1 at a")

"""Loading a job file's YAML: plain data only, and nothing that reads differently from how it looks.

A job file may come from anybody, so the loader refuses, with the line: tags, anchors and aliases (a few lines of them unfold to
gigabytes), duplicate keys (YAML keeps the last one silently), keys that are not text (`no: 25` is a truth value in YAML 1.1),
several documents, deep or long documents, numbers and truth values that are spelled otherwise than they read (010 is 8), and
characters that turn the direction of writing, so that a file looks other than it is.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import InvalidInput
from schemas.text_file import BIDI, read_text, shown

MAX_BYTES = 1 << 20
MAX_NODES = 10_000
MAX_DEPTH = 16
ANYTHING = re.compile(r".*", re.DOTALL)
PLAIN = {
    "tag:yaml.org,2002:int": (re.compile(r"[+-]?(0|[1-9][0-9]*)"), "a decimal number"),
    "tag:yaml.org,2002:float": (re.compile(r"[+-]?(0|[1-9][0-9]*)\.[0-9]*([eE][+-]?[0-9]+)?"), "a decimal number"),
    "tag:yaml.org,2002:bool": (re.compile(r"true|false", re.IGNORECASE), "true or false"),
}
"""Tag -> how a value may be spelled. YAML 1.1 reads 010 as 8, 1:30 as 90, 1_0 as 10 and `on` as a truth value."""

STRING_TAG = "tag:yaml.org,2002:str"


class _RefusedError(Exception):
    """What was found and what is allowed, at a line."""

    def __init__(self, mark: yaml.Mark | None, found: str, allowed: str) -> None:
        super().__init__(found)
        self.mark, self.found, self.allowed = mark, found, allowed


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader, less what this module refuses. Checks stand in the composer, so a bomb is refused before it unfolds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:  # an alias has the name of its anchor
            raise _RefusedError(event.start_mark, "an anchor or alias", "values written out")
        if getattr(event, "tag", None) is not None:
            raise _RefusedError(event.start_mark, f"the tag {shown(event.tag)}", "untagged values")
        self.nodes += 1
        self.depth += 1
        if self.nodes > MAX_NODES:
            raise _RefusedError(event.start_mark, f"more than {MAX_NODES} values", f"at most {MAX_NODES}")
        if self.depth > MAX_DEPTH:
            raise _RefusedError(event.start_mark, f"values nested deeper than {MAX_DEPTH}", f"at most {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        # Not SafeConstructor's: that one would first merge the values of `<<` keys.
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != STRING_TAG:
                raise _RefusedError(
                    key.start_mark, f"the key {shown(getattr(key, 'value', None))}", "text keys (quote it if it is meant as text)"
                )
            if key.value in seen:
                raise _RefusedError(key.start_mark, f"the key {shown(key.value)} twice", "each key once")
            seen.add(key.value)
        return yaml.constructor.BaseConstructor.construct_mapping(self, node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode) and node.style is None:
            spelling, allowed = PLAIN.get(node.tag, (ANYTHING, ""))
            if not spelling.fullmatch(node.value):
                raise _RefusedError(node.start_mark, shown(node.value), f"{allowed} (quote it if it is text)")
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError):  # 2026-13-01, or an integer of more digits than Python converts
            raise _RefusedError(
                node.start_mark, shown(getattr(node, "value", None)), "a value that can be read (quote it if it is text)"
            ) from None


def parse_value(text: str, *, file: str) -> Any:
    """One YAML value. Raises InvalidInput with `file` and the line."""
    turned = BIDI.search(text)
    if turned:
        line = text.count("\n", 0, turned.start()) + 1
        raise InvalidInput(
            file, f"line {line}", f"the character U+{ord(turned[0]):04X}", "text without controls of its direction"
        )
    try:
        loader = _PlainLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except _RefusedError as error:
        raise InvalidInput(file, _line(error.mark), error.found, error.allowed) from None
    except yaml.MarkedYAMLError as error:
        problem = " ".join((error.problem or error.context or "no YAML").split())
        found = f"bad YAML ({problem.removeprefix('but found ')})"
        raise InvalidInput(file, _line(error.problem_mark or error.context_mark), found, "one YAML document") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidInput(file, f"line {line}", f"the character U+{error.character:04X}", "printable text") from None


def load_mapping(path: Path) -> dict[str, Any]:
    """The file's top-level mapping. Raises InvalidInput with the file and the line or key."""
    value = parse_value(read_text(path, max_bytes=MAX_BYTES), file=str(path))
    if not isinstance(value, dict):
        raise InvalidInput(str(path), "line 1", shown(value), "a mapping of keys to values")
    return value


def _line(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}"

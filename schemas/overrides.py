"""`--set key=value`: one dotted key of a job file replaced on the command line.

The value is read as YAML and the result goes through the file's own models, so an override can say nothing that the file could
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import InvalidInput
from schemas.text_file import shown
from schemas.yaml_file import MAX_DEPTH, parse_value


@dataclass(frozen=True)
class Override:
    """One `--set`: the key path, such as ("horizons", "1"), the value, and the option as it was typed."""

    path: tuple[str, ...]
    value: Any
    option: str


def parse_override(text: str) -> Override:
    """`key.path=value` with a YAML value. Raises InvalidInput."""
    option = f"--set {shown(text)[1:-1]}"
    key, equals, value = text.partition("=")
    path = tuple(key.split("."))
    if not equals or not all(path) or len(path) > MAX_DEPTH:
        raise InvalidInput(option, "", shown(text), "key.path=value, such as fork.layer=3")
    return Override(path, parse_value(value, file=option), option)


def apply_overrides(data: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """A copy of a job file's data with the overrides in it, later ones over earlier ones.

    Mappings that the file leaves out are made; a list must be there, and the index in it. Raises InvalidInput for a path that
    leads nowhere.
    """
    result: Any = data
    for override in overrides:
        result = _replaced(result, override, 0)
    return dict(result)


def _replaced(node: Any, override: Override, depth: int) -> Any:
    if depth == len(override.path):
        return override.value
    key = override.path[depth]
    at = ".".join(override.path[: depth + 1])
    match node:
        case None:
            return {key: _replaced(None, override, depth + 1)}
        case dict():
            return {**node, key: _replaced(node.get(key), override, depth + 1)}
        case list():
            if key not in map(str, range(len(node))):
                raise InvalidInput(
                    override.option, at, shown(key), f"an index 0..{len(node) - 1}" if node else "no index: the list is empty"
                )
            index = int(key)
            return [*node[:index], _replaced(node[index], override, depth + 1), *node[index + 1 :]]
    raise InvalidInput(override.option, at, f"{shown(node)} at {'.'.join(override.path[:depth])}", "a key of a mapping or a list")

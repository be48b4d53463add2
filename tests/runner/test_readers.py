"""Nothing that is read can run: no module of the product knows a format that executes what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXECUTING = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "unsafe_load", "full_load", "load_all", "read_pickle"}


def modules() -> list[Path]:
    return [path for place in ("runner", "actors", "schemas", "kernels") for path in sorted((ROOT / place).rglob("*.py"))]


def forbidden(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names if alias.name.split(".")[0] in EXECUTING)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in EXECUTING:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield name
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                if name in CALLS or (name == "load" and isinstance(value, ast.Name) and value.id in ("yaml", "np", "numpy")):
                    yield ast.unparse(node.func)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_reads_what_executes(path: Path) -> None:
    assert list(forbidden(ast.parse(path.read_text("utf-8")))) == []


def test_what_executes_is_recognised() -> None:
    source = "import pickle\nfrom dill import loads\nyaml.load(x)\nnp.load(x)\neval(x)\nyaml.unsafe_load(x)\njson.load(x)\n"
    assert list(forbidden(ast.parse(source))) == ["pickle", "dill", "yaml.load", "np.load", "eval", "yaml.unsafe_load"]

"""docs/tables.md, written from the tables' own columns: `python -m runner.support.document`."""

from __future__ import annotations

from pathlib import Path

from runner.support import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"

HEAD = """# Support tables

`runner export RUN` computes them from the dataset of a finished run and writes them to `RUN/support/`, or to the folder that
`--out` names. They are derived: the dataset under `RUN/tables/` decides, and equal datasets give equal tables, byte for byte
(`replay_environment.tsv`, which says where the run was executed, excepted).

- Tab-separated UTF-8, one header line, LF. In texts `\\t`, `\\n`, `\\r` and `\\\\` are written so; there is no quoting.
- An empty cell of a number is "none"; a text that is empty is empty. Truth is `yes` or `no`.
- FP32 values are the shortest decimal that reads back as the same FP32 value. Shares are counts, such as 12/50.
- Ordinals of generated tokens count from 1, positions and layers from 0. Digests are those of [formats.md](formats.md).

This page is made by `python -m runner.support.document`.
"""


def document() -> str:
    """The page."""
    parts = [HEAD]
    for table in sorted(TABLES, key=lambda one: one.name):
        whose = f"Runs of `protocol: {table.protocol}`" if table.protocol else "Runs of every protocol"
        lines = [
            f"## {table.name}.tsv",
            "",
            f"{whose}; study {table.section}. {table.doc}",
            "",
            "| column | what it says |",
            "|---|---|",
        ]
        lines += [f"| `{column.name}` | {column.doc} |" for column in table.columns]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")

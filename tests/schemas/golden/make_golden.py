"""Writes the golden file of each table's current version: `python tests/schemas/golden/make_golden.py`.

A file that exists is left alone: a version that has been written down never changes, its successor gets a file of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

from schemas.tables import TABLES

if __name__ == "__main__":
    for spec in TABLES.values():
        path = Path(__file__).with_name(f"{spec.name}.v{spec.version}.json")
        if not path.exists():
            path.write_text(json.dumps(spec.describe(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

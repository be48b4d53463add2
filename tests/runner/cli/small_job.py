"""A job of three prompts, and what a command of it gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

JOB = """\
schema_version: 1
name: small
protocol: breadth
catalog: prompts.tsv
horizons: [2, 4]
"""

CATALOG = (
    "prompt_id\tlanguage\tkind\ttext\n"
    "en-1\ten\tordinary\twhy the sheep\n"
    "zh-1\tzh\tordinary\t朋友昨天打来电话\n"
    "en-2\ten\tsensitivity\tleft right left right left left right right left\n"
)


@dataclass(frozen=True)
class Ended:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Ended]

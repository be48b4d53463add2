"""Work that a test's units ask for by name; workers import it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from actors.executor import Session
from schemas.errors import ConformanceFinding, InvalidInput
from schemas.unit import Lease, Unit, UnitResult


def lease(number: int, *work: str) -> Lease:
    """A lease with a unit for each piece of work."""
    return Lease(number, [Unit("stage", f"p{place}", {"place": place, "work": one}) for place, one in enumerate(work)])


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    return [UnitResult(unit.key, {"answers": pa.table({"answer": [_answer(session, unit.meaning["work"])]})}) for unit in units]


def execute_backwards(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    return execute(session, units)[::-1]


def _answer(session: Session, work: str) -> Any:
    match work.split():
        case ["pid"]:
            return os.getpid()
        case ["environment", name]:
            return os.environ.get(name)
        case ["sleep", seconds]:
            time.sleep(float(seconds))
        case ["exit"]:
            os._exit(7)
        case ["allocate", mib]:
            return len(bytearray(int(mib) << 20))
        case ["raise", "value"]:
            raise ValueError("no such order\nand more")
        case ["raise", "memory"]:
            raise MemoryError
        case ["raise", "finding"]:
            raise ConformanceFinding("bits differ")
        case ["raise", "input"]:
            raise InvalidInput("prompt p0", "text", "0 tokens", "1")
        case ["lambda"]:
            return lambda: None  # no Arrow value
        case _:
            return session.tokenizer.encode(work)
    return work

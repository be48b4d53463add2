"""The command line with units that do harm: breadth, but for what the file named by TROUBLE says of a prompt.

`python -m troubled submit ...` is `runner submit ...`. The file holds a JSON object, prompt ID -> harm; without it all units are
as they should be.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from actors.executor import Session
from runner.cli import main
from runner.protocols import breadth
from schemas.unit import Unit, UnitResult

TROUBLE = "TROUBLE"

_unharmed = breadth.execute


def execute(session: Session, units: Sequence[Unit]) -> list[UnitResult]:
    for unit in units:
        _harm(_trouble().get(unit.prompt_id, ""))
    return _unharmed(session, units)


def _trouble() -> dict[str, str]:
    try:
        return dict(json.loads(Path(os.environ[TROUBLE]).read_text()))
    except FileNotFoundError:
        return {}


def _harm(kind: str) -> None:
    match kind.split():
        case ["crash"]:
            os.kill(os.getpid(), signal.SIGSEGV)
        case ["hang"]:
            while True:
                pass
        case ["eat"]:
            eaten = []
            while True:
                eaten.append(b"x" * (32 << 20))
        case ["slow", seconds]:
            time.sleep(float(seconds))


if __name__ == "__main__":
    breadth.execute = execute
    main()

"""The command line: one small module a command, and `main`, where the process begins.

Exit codes: 0 done · 1 unexpected failure · 2 usage or invalid input · 3 finished with failed units · 4 conformance verdict
"differs" · 5 run busy · 75 cluster unreachable · 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the process with its exit code; an expected error is one line on stderr, or JSON on stdout."""
    before = signal.signal(signal.SIGINT, _stopped_while_importing)
    # Here, because it takes a second, in which somebody may press Ctrl-C.
    from runner.cli.command_line import end_with_command

    signal.signal(signal.SIGINT, before)
    end_with_command(list(sys.argv[1:] if arguments is None else arguments))


def _stopped_while_importing(number: int, frame: FrameType | None) -> NoReturn:
    """Nothing was begun. Leaves at once: an extension that is half imported turns a KeyboardInterrupt into errors of its own."""
    if "--json" in sys.argv:
        os.write(1, json.dumps({"error": "Interrupted", "message": "stopped at once", "exit_code": 130}).encode() + b"\n")
    else:
        os.write(2, b"runner: stopped at once\n")
    os._exit(130)

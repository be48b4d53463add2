"""Workers share a host's memory and cannot claim all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from actors import memory

CLAIM = """
import sys
from actors.memory import limit_memory
limit_memory(256 << 20)
bytearray(128 << 20)
try:
    bytearray(512 << 20)
except MemoryError:
    sys.exit(7)
"""


def test_a_process_gets_what_it_may_claim_and_no_more() -> None:
    command = [sys.executable, "-c", CLAIM]
    assert subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode == 7


def test_a_container_that_is_limited_to_less_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMITS", (str(tmp_path / "none"), str(limit)))
    limit.write_text("max\n")
    whole = memory.host_memory()
    assert whole is not None
    limit.write_text(f"{whole // 2}\n")
    assert memory.host_memory() == whole // 2
    limit.write_text(f"{whole * 2}\n")
    assert memory.host_memory() == whole


def test_workers_of_a_host_leave_some_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "host_memory", lambda: 1000)
    assert [memory.fair_share(workers) for workers in (1, 2, 4)] == [800, 400, 200]
    monkeypatch.setattr(memory, "host_memory", lambda: None)
    assert memory.fair_share(1) is None

"""What the figures were measured on, and whether it was idle."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import kernels

IDLE_LOAD = 0.3
"""Load average of the last minute, a core, up to which a machine counts as idle."""


class Busy(Exception):
    """The machine does other things."""


def describe() -> dict[str, object]:
    cpu = _fields(Path("/proc/cpuinfo"))
    memory = _fields(Path("/proc/meminfo"))
    compiler = subprocess.run([os.environ.get("CXX", "g++"), "--version"], capture_output=True, text=True, check=True)
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "cpu_family_model": f"{cpu.get('cpu family', '?')}/{cpu.get('model', '?')}",
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_gib": round(int(memory["MemTotal"].split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "compiler": compiler.stdout.splitlines()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "instruction_set": kernels.instruction_set(),
        "build_id": kernels.BUILD_ID,
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "idle": idle(),
    }


def idle() -> bool:
    return os.getloadavg()[0] <= IDLE_LOAD * len(os.sched_getaffinity(0))


def require_idle() -> None:
    """Raises Busy: a figure from a busy machine says nothing."""
    if not idle():
        allowed = IDLE_LOAD * len(os.sched_getaffinity(0))
        raise Busy(f"load average {os.getloadavg()[0]:.2f}, allowed {allowed:.2f}; --busy measures anyway")


def _fields(path: Path) -> dict[str, str]:
    """First value of each `key : value` line."""
    fields: dict[str, str] = {}
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def _caches() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        found.append(f"L{level} {kind} {size}")
    return found

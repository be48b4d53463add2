"""What kind of machine a worker runs on, for the record (study A.2). Nothing is decided by it."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def environment() -> dict[str, str]:
    """Operating system, machine, CPU model, cores of the machine, cores this process may use, memory: what the system tells."""
    told = {
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": _field(Path("/proc/cpuinfo"), "model name"),
        "cpus": str(os.cpu_count() or ""),
        "memory_mib": _memory_mib(),
    }
    if hasattr(os, "sched_getaffinity"):
        told["cpus_allowed"] = _ranges(sorted(os.sched_getaffinity(0)))
    return {name: value for name, value in told.items() if value}


def _memory_mib() -> str:
    kib = _field(Path("/proc/meminfo"), "MemTotal").removesuffix(" kB")
    return str(int(kib) >> 10) if kib.isdigit() else ""


def _field(path: Path, name: str) -> str:
    """Value of the first "name : value" line; "" where the system has no such file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == name), "")


def _ranges(numbers: list[int]) -> str:
    """0,1,2,5 as 0-2,5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

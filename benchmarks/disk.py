"""How fast cold bytes come from a disk: past the page cache in large reads, and through a map as the decoder reads weights."""

from __future__ import annotations

import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BLOCK = 8 << 20


def measure(directory: Path, megabytes: int, readers: tuple[int, ...] = (1, 4), repetitions: int = 3) -> dict[str, object]:
    """GB/s of a new file of random bytes: {"direct": [{readers, gb: [..]}], "mapped": [..]}. The file is removed."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "disk-benchmark"
    try:
        _write(path, megabytes)
        direct = [{"readers": count, "gb": [_read_direct(path, count) for _ in range(repetitions)]} for count in readers]
        return {"megabytes": megabytes, "direct": direct, "mapped": [_read_mapped(path) for _ in range(repetitions)]}
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, megabytes: int) -> None:
    generator = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(megabytes * 2**20 // BLOCK):
            file.write(generator.integers(0, 1 << 63, BLOCK // 8, np.uint64).tobytes())
        file.flush()
        os.fsync(file.fileno())


def _read_direct(path: Path, readers: int) -> float:
    size = path.stat().st_size // BLOCK * BLOCK

    def read(reader: int) -> None:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, BLOCK)  # O_DIRECT wants an aligned buffer
        for offset in range(reader * BLOCK, size, readers * BLOCK):
            os.preadv(file, [buffer], offset)
        os.close(file)

    start = time.perf_counter()
    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(read, range(readers)))
    return size / (time.perf_counter() - start) / 1e9


def _read_mapped(path: Path) -> float:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    int(np.memmap(path, np.uint64, "r").sum())
    return path.stat().st_size / (time.perf_counter() - start) / 1e9

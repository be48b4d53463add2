"""Memory of this process, by /proc and by the C library's allocator."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


class _Mallinfo2(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def heap_bytes() -> int:
    """Bytes that malloc has given out."""
    gc.collect()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo2
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def resident_bytes() -> dict[str, int]:
    """RssAnon: the process's own pages. RssFile: pages of mapped files, which the page cache holds and can drop."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssFile", "VmHWM")}

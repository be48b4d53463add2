"""Tokens at the full Flash geometry from sparse zero files: `python -m benchmarks.full_geometry DIRECTORY` prints JSON.

The directory is made by benchmarks.synthetic. A disk's time is not in these figures: holes are not read from it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from layouts import flash_config

import kernels
from benchmarks.branches import branch_bytes
from benchmarks.memory import resident_bytes
from benchmarks.synthetic import token_bytes

BRANCHES = 4


def drop_page_cache(directory: Path) -> None:
    for path in directory.glob("*.safetensors"):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=4)
    options = parser.parse_args()
    drop_page_cache(options.directory)
    resident = {"before": resident_bytes()}
    start = time.perf_counter()
    checkpoint = kernels.Checkpoint.open(options.directory)
    decoder = kernels.Decoder(checkpoint, threads=options.threads)
    opened = time.perf_counter() - start
    resident["opened"] = resident_bytes()
    state = decoder.new_state()
    seconds = []
    for _ in range(options.tokens):
        start = time.perf_counter()
        decoder.step([kernels.Row(state, [2])])
        seconds.append(time.perf_counter() - start)
    resident["decoded"] = resident_bytes()
    dense, routed = token_bytes(flash_config())
    found = {
        "threads": options.threads,
        "layers": checkpoint.config.num_hidden_layers,
        "experts": checkpoint.config.n_routed_experts,
        "checkpoint_bytes": checkpoint.total_bytes,
        "open_seconds": opened,
        "token_seconds": seconds,  # the first one fills the page cache
        "token_bytes": {"dense": dense, "routed": routed},
        "resident": resident,
        "branch": branch_bytes(decoder, [2] * 5, BRANCHES, tokens=1),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

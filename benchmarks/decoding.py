"""Time our decoder on the embedded checkpoint: `python -m benchmarks.decoding --threads 1 2 --rows 1 8 64` prints JSON.

RUNNER_ISA chooses the kernels, so each instruction set is a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import kernels
from benchmarks.workload import time_decoder, timing_options


class OurRows:
    def __init__(self, decoder: kernels.Decoder, rows: int) -> None:
        self._decoder = decoder
        self._states = [decoder.new_state() for _ in range(rows)]

    def feed(self, tokens: Sequence[Sequence[int]]) -> list[int]:
        rows = [kernels.Row(state, ids) for state, ids in zip(self._states, tokens, strict=True)]
        return [result.token for result in self._decoder.step(rows)]

    def close(self) -> None:
        self._states.clear()


def main() -> None:
    parser = timing_options(__doc__)
    parser.add_argument("--numerics", choices=("official", "fp32"), default="official")
    parser.add_argument("--steps", type=int, help="instead of the workload's own number, for slow kernels")
    options = parser.parse_args()
    checkpoint = kernels.Checkpoint.open(kernels.builtin_checkpoint())
    timings = []
    for threads in options.threads:
        decoder = kernels.Decoder(checkpoint, threads=threads, numerics=options.numerics)
        for rows in options.rows:
            timing = time_decoder(partial(OurRows, decoder, rows), rows, threads, options.repetitions, options.steps)
            timings.append(timing.as_json())
    print(json.dumps({"isa": kernels.instruction_set(), "numerics": options.numerics, "timings": timings}))


if __name__ == "__main__":
    main()

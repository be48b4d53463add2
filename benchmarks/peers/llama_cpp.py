"""Time llama.cpp on the checkpoint: `python -m benchmarks.peers.llama_cpp CHECKPOINT --threads N --rows 1 8 64` prints JSON.

The same weights (gguf_file), the same prompts, one greedy token a step for all rows in one llama_decode; and one row as the
package's own `Llama.generate` decodes it. Needs llama-cpp-python and gguf.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import llama_cpp
import numpy as np
import numpy.typing as npt

from benchmarks.peers.gguf_file import FILES, write_gguf
from benchmarks.workload import PROMPT_LENGTH, STEPS, VOCABULARY, time_decoder, timing_options

POSITIONS = PROMPT_LENGTH + max(STEPS.values()) + 8


class Context:
    """A llama.cpp context with a sequence for each row."""

    def __init__(self, model: object, rows: int, threads: int) -> None:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = rows * POSITIONS
        parameters.n_batch = parameters.n_ubatch = max(rows * PROMPT_LENGTH, 64)
        parameters.n_seq_max = rows
        parameters.n_threads = parameters.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(model, parameters)
        if not self._context:
            raise RuntimeError("llama.cpp makes no context of this model")
        self._batch = llama_cpp.llama_batch_init(parameters.n_batch, 0, 1)
        self._position = 0

    def feed(self, tokens: Sequence[Sequence[int]]) -> list[int]:
        batch, last = self._batch, []
        batch.n_tokens = 0
        for row, ids in enumerate(tokens):
            for offset, token in enumerate(ids):
                place = batch.n_tokens
                batch.token[place], batch.pos[place] = token, self._position + offset
                batch.n_seq_id[place], batch.seq_id[place][0] = 1, row
                batch.logits[place] = offset == len(ids) - 1
                batch.n_tokens += 1
            last.append(batch.n_tokens - 1)
        if code := llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode gave {code}")
        self._position += len(tokens[0])
        return [int(np.argmax(self._logits(place))) for place in last]

    def _logits(self, place: int) -> npt.NDArray[np.float32]:
        pointer = llama_cpp.llama_get_logits_ith(self._context, place)
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (VOCABULARY,))

    def close(self) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)


class Generating:
    """One row by the package's high-level interface, which evaluates, samples and yields."""

    def __init__(self, llama: llama_cpp.Llama) -> None:
        self._llama = llama
        self._stream: Iterator[int] | None = None
        self._last: int | None = None

    def feed(self, tokens: Sequence[Sequence[int]]) -> list[int]:
        if self._stream is None:
            self._llama.reset()
            self._stream = self._llama.generate(list(tokens[0]), temp=0.0)
        elif list(tokens[0]) != [self._last]:
            raise RuntimeError("Llama.generate feeds itself what it has yielded")
        self._last = next(self._stream)
        return [self._last]

    def close(self) -> None:
        self._stream = None


def main() -> None:
    parser = timing_options(__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--file", choices=FILES, default="FP32", help="what the weights are held in")
    options = parser.parse_args()
    quiet = llama_cpp.llama_log_callback(lambda _level, _text, _data: None)
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    timings, generate = [], []
    with tempfile.TemporaryDirectory() as directory:
        file = write_gguf(options.checkpoint, Path(directory) / "checkpoint.gguf", FILES[options.file])
        model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        if not model:
            raise RuntimeError("llama.cpp does not load the file")
        for threads in options.threads:
            for rows in options.rows:
                timing = time_decoder(partial(Context, model, rows, threads), rows, threads, options.repetitions)
                timings.append(timing.as_json())
            llama = llama_cpp.Llama(str(file), n_ctx=POSITIONS, n_threads=threads, n_threads_batch=threads, verbose=False)
            generate.append(time_decoder(partial(Generating, llama), 1, threads, options.repetitions).as_json())
            llama.close()
    print(json.dumps({"version": llama_cpp.__version__, "timings": timings, "generate": generate}))


if __name__ == "__main__":
    main()

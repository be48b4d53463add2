"""Time transformers on the checkpoint: `python -m benchmarks.peers.transformers CHECKPOINT --threads N` prints JSON.

The same weights, dequantised to float32, the same prompts, its own cache, one greedy token a step for all rows. Of its ways to
run experts the fastest counts. Needs torch and transformers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from oracle.checkpoint_files import read_checkpoint
from oracle.geometry import Geometry
from oracle.transformers_reference import TransformersReference

from benchmarks.workload import time_decoder, timing_options

EXPERTS = ("eager", "batched_mm", "grouped_mm")


TRIAL_STEPS = 3


class CachedRows:
    """Rows that advance together over one cache."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._cache: Any = None

    def feed(self, tokens: Sequence[Sequence[int]]) -> list[int]:
        with torch.inference_mode():
            output = self._model(input_ids=torch.tensor(tokens), cache=self._cache, use_cache=True, logits_to_keep=1)
            self._cache = output.cache
            chosen: list[int] = output.logits[:, -1].argmax(-1).tolist()
            return chosen

    def close(self) -> None:
        self._cache = None


def main() -> None:
    parser = timing_options(__doc__)
    parser.add_argument("checkpoint", type=Path)
    options = parser.parse_args()
    geometry, tensors = Geometry.of_checkpoint(options.checkpoint), read_checkpoint(options.checkpoint)
    model = TransformersReference(geometry, tensors, double=False).model
    for module in model.modules():
        module._forward_hooks.clear()  # the reference keeps intermediates by them; a user's model does not
    found = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for rows in options.rows:
            tried = {}
            for experts in EXPERTS:
                model.config._experts_implementation = experts
                [tried[experts]] = time_decoder(partial(CachedRows, model), rows, threads, 1, TRIAL_STEPS).rows_per_second
            best = max(tried, key=lambda experts: tried[experts])
            model.config._experts_implementation = best
            timing = time_decoder(partial(CachedRows, model), rows, threads, options.repetitions)
            found.append(timing.as_json() | {"experts": best})
    print(json.dumps({"version": transformers.__version__, "torch": torch.__version__, "timings": found}))


if __name__ == "__main__":
    main()

"""Bytes that a branch of a fork takes on the embedded checkpoint: `python -m benchmarks.branches`, JSON on standard output.

Branches part in their first layer, as each is fed tokens of its own: those that part later share what lies below.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import kernels
from benchmarks.memory import heap_bytes
from benchmarks.workload import prompts

FORKS = 1000
"""A fork is so small that four of them are lost among what Python allocates meanwhile."""


def branch_bytes(decoder: kernels.Decoder, prompt: Sequence[int], branches: int, tokens: int) -> dict[str, object]:
    """Heap bytes a branch after forking, and after `tokens` steps of its own; beside them the bytes of a whole copied state."""
    parent = decoder.new_state()
    decoder.step([kernels.Row(parent, prompt)])
    whole = 4 * parent.value_count()
    decoder.step([kernels.Row(parent.fork(), [2 + place]) for place in range(branches)])  # allocates what the decoder keeps
    forks = [parent.fork() for _ in range(FORKS)]
    forked = heap_bytes()
    del forks
    before = heap_bytes()
    states = [parent.fork() for _ in range(branches)]
    for step in range(tokens):
        decoder.step([kernels.Row(state, [2 + step + place]) for place, state in enumerate(states)])
    after = heap_bytes()
    return {
        "branches": branches,
        "prompt_tokens": len(prompt),
        "tokens": tokens,
        "copied_state_bytes": whole,
        "fork_bytes": (forked - before) / FORKS,
        "branch_bytes": (after - before) / branches,
    }


def main() -> None:
    decoder = kernels.Decoder(kernels.Checkpoint.open(kernels.builtin_checkpoint()))
    prompt = [token for part in prompts(4) for token in part]
    print(json.dumps([branch_bytes(decoder, prompt, branches=720, tokens=tokens) for tokens in (1, 8)]))


if __name__ == "__main__":
    main()

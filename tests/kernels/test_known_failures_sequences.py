"""Right values where other runtimes went wrong across tokens, rows and runs: chunks, prefixes, batches, memory, files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.cases import Case, captured, random_case
from oracle.formats import F64
from oracle.geometry import SMALL, Dtype
from oracle.step_attention import StepAttention
from oracle.step_decoder import StepDecoder
from oracle.step_state import CompressorState

import kernels

Small = Callable[[Dtype], Case]
CAPTURED = ("logits", "post_mhc", "index_rows", "route")


class PreviousHalfTakenForZeros(StepDecoder):
    """The window before the first counts as four tokens of zeros instead of none."""

    class Attention(StepAttention):
        def window_candidates(self, state: CompressorState, ratio: int) -> tuple[F64, F64]:
            values, scores = super().window_candidates(state, ratio)
            return values, np.where(np.isinf(scores), 0, scores)

    def __init__(self, *args: object, **keywords: object) -> None:
        super().__init__(*args, **keywords)
        self.attention = self.Attention(self.geometry, self.weights, self.round, True)


def test_the_first_compressed_row_is_right_and_seen_by_the_token_that_ends_it(small: Small) -> None:
    """T06: position 3, the fourth token, is the first to read a row."""
    case = small("float32")
    tokens = case.tokens(8)
    right, wrong = (
        np.stack([step.logits for step in case.numpy_steps(tokens, official=False, kind=kind)])
        for kind in (StepDecoder, PreviousHalfTakenForZeros)
    )
    ours = captured(case.decoder("fp32"), tokens, ["logits", "index_rows"])
    assert np.abs(ours["logits"] - right).max() < 2e-4
    different = np.abs(wrong - right).max(-1) > 0.02
    assert different.tolist() == [False] * 3 + [True] * 5
    assert ours["index_rows"][:, 2, 0].tolist()[:4] == [-1, -1, -1, 0]


@pytest.mark.parametrize("chunk", [1, 3, 5])
def test_chunks_see_all_rows_before_them(small: Small, chunk: int) -> None:
    """T07, T08: the indexer of a later chunk scores earlier chunks' rows, and a chunk of one token feeds the compressors too."""
    case = small("float32")
    tokens = case.tokens(21)
    decoder, rows = case.decoder("fp32"), []
    state = decoder.new_state()
    for start in range(0, len(tokens), chunk):
        rows.append(captured(decoder, tokens[start : start + chunk], ["index_rows"], state)["index_rows"])
    steps = case.numpy_steps(tokens, official=False)
    for position, step in enumerate(steps):
        for layer, found in enumerate(step.layers):
            ours = np.concatenate(rows)[position, layer]
            assert sorted(ours[ours >= 0]) == sorted(found.index_rows)
    counts = {(layer, part): shape[0] for layer, part, _, shape in state.layout() if "rows" in part}
    assert set(counts.values()) == {21 // 4, 21 // 8}


def test_a_shared_prefix_gives_what_a_cold_prompt_gives(small: Small) -> None:
    """T11."""
    case = small("fp4fp8")
    decoder, tokens = case.decoder(), case.tokens(30)
    prefix = decoder.new_state()
    captured(decoder, tokens[:17], ["logits"], prefix)
    warm, cold = prefix.fork(), decoder.new_state()
    after = captured(decoder, tokens[17:], CAPTURED, warm)
    whole = captured(decoder, tokens, CAPTURED, cold)
    assert all(after[name].tobytes() == whole[name][17:].tobytes() for name in CAPTURED)
    assert warm.sha256() == cold.sha256()


def test_several_sequences_roll_back_to_where_they_were_forked(small: Small) -> None:
    """T12: the originals are the rollback; advancing their forks in one step, past every window, leaves them as they were."""
    case = small("fp4fp8")
    decoder = case.decoder()
    states = [decoder.new_state() for _ in range(3)]
    for place, state in enumerate(states):
        captured(decoder, case.tokens(5 + 6 * place, seed=place), ["logits"], state)
    before = [state.sha256() for state in states]
    decoder.step([kernels.Row(state.fork(), case.tokens(20, seed=9)) for state in states])
    assert [state.sha256() for state in states] == before
    again = [captured(decoder, case.tokens(3, seed=7), ["logits"], state)["logits"].tobytes() for state in states]
    for place, bits in enumerate(again):
        fresh = case.tokens(5 + 6 * place, seed=place) + case.tokens(3, seed=7)
        assert captured(decoder, fresh, ["logits"])["logits"][-3:].tobytes() == bits


def test_rows_of_unequal_length_in_any_order_give_each_its_own_bits(small: Small) -> None:
    """T13, T15, T25: each row alone, all in one step, and all in the reverse order."""
    case = small("fp4fp8")
    decoder = case.decoder(threads=2)
    prompts = [case.tokens(length, seed=length) for length in (1, 2, 7, 8, 9, 24)]
    want = kernels.Intervention(capture=CAPTURED)

    def together(order: list[list[int]]) -> list[bytes]:
        results = decoder.step([kernels.Row(decoder.new_state(), prompt, want) for prompt in order])
        return [b"".join(result.captures[name].tobytes() for name in CAPTURED) for result in results]

    alone = [together([prompt])[0] for prompt in prompts]
    assert together(prompts) == alone
    assert together(prompts[::-1]) == alone[::-1]


def test_what_ran_before_changes_nothing(small: Small) -> None:
    """T14: experts that other sequences made hot add up as cold ones do."""
    case = small("fp4fp8")
    tokens = case.tokens(16)
    cold = captured(case.decoder(), tokens, CAPTURED)
    decoder = case.decoder()
    for seed in range(2, 6):
        captured(decoder, case.tokens(24, seed=seed), ["logits"])
    warm = captured(decoder, tokens, CAPTURED)
    assert all(warm[name].tobytes() == cold[name].tobytes() for name in CAPTURED)


PROGRAM = """
import hashlib, sys, kernels
decoder = kernels.Decoder(kernels.Checkpoint.open(sys.argv[1]), threads=2)
states = [decoder.new_state() for _ in range(3)]
want = kernels.Intervention(capture=sorted(kernels.CAPTURES))
digest = hashlib.sha256()
for start in range(3):
    rows = [kernels.Row(state, list(range(2 + start, 5 + start + 4 * place)), want) for place, state in enumerate(states)]
    for result, state in zip(decoder.step(rows), states):
        digest.update(state.serialise() + b"".join(result.captures[name].tobytes() for name in sorted(result.captures)))
print(digest.hexdigest())
"""


@pytest.mark.parametrize("dtype", ["bf16", "fp4fp8"])
def test_fresh_memory_is_written_before_it_is_read(small: Small, dtype: Dtype) -> None:
    """T26: glibc fills what malloc gives, and what free takes, with bytes of our choice; no choice changes a bit."""
    directory = str(small(dtype).directory)
    outputs = set()
    for filling in ("0", "85", "170", "255"):
        environment = {**os.environ, "MALLOC_PERTURB_": filling, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", PROGRAM, directory]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs) == 1


def test_a_truncated_shard_is_refused_by_name(tmp_path: Path) -> None:
    """T27: one byte short is enough."""
    directory = random_case(tmp_path, "bf16", SMALL).directory
    shard = directory / "model-00002-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 1)
    with pytest.raises(kernels.CheckpointError) as error:
        kernels.Checkpoint.open(directory)
    assert Path(error.value.file).name == shard.name

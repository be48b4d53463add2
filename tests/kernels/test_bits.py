"""A row's bits depend on its own state, tokens and intervention, and on nothing else (design: numerics contract)."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import ALL_CAPTURES, digest, feed, tokens

import kernels

LENGTHS = (1, 3, 4, 9, 40, 127, 128, 131)  # before, at and after where rows are finished (4, 128) and the window of 128 wraps
BATCHES = (1, 2, 3, 4, 8, 16, 64)
EVERYTHING = kernels.Intervention(capture=ALL_CAPTURES)


@pytest.fixture(scope="module")
def prefixes(mote: kernels.Checkpoint, decoder: kernels.Decoder) -> list[kernels.State]:
    """States at mixed positions, each fed alone and at once."""
    config = mote.config
    assert min(LENGTHS) < config.sliding_window < max(LENGTHS), "no state on either side of the wrap"
    assert all(ratio < max(LENGTHS) for ratio in config.compress_ratios), "a compressor that never finishes a row"
    states = []
    for seed, length in enumerate(LENGTHS):
        states.append(decoder.new_state())
        feed(decoder, states[-1], tokens(length, seed))
    return states


@pytest.fixture(scope="module")
def alone(decoder: kernels.Decoder, prefixes: list[kernels.State]) -> list[str]:
    """What each of 64 rows gives in a step of its own: state i mod 8, token drawn for i."""
    out = []
    for i in range(max(BATCHES)):
        state = prefixes[i % len(prefixes)].fork()
        (result,) = decoder.step([kernels.Row(state, tokens(1, 1000 + i), EVERYTHING)])
        out.append(digest(result, state))
    return out


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", BATCHES)
def test_batch_and_threads_do_not_change_a_row(
    mote: kernels.Checkpoint, prefixes: list[kernels.State], alone: list[str], batch: int, threads: int
) -> None:
    """Known failures T13, T15, T25: rows of unequal length, batches of any size, any place in the batch."""
    decoder = kernels.Decoder(mote, threads=threads)
    order = sorted(range(batch), key=lambda i: (i * 37) % 64)
    states = {i: prefixes[i % len(prefixes)].fork() for i in order}
    results = decoder.step([kernels.Row(states[i], tokens(1, 1000 + i), EVERYTHING) for i in order])
    assert {i: digest(result, states[i]) for i, result in zip(order, results, strict=True)} == {i: alone[i] for i in order}


@pytest.mark.parametrize("chunk", [1, 7, None])
def test_chunks_of_a_prompt_give_the_same_bits(decoder: kernels.Decoder, chunk: int | None) -> None:
    """Known failures T06, T07, T08, T11: prompt processing and token-by-token decoding are one function."""
    ids = tokens(135, 5)
    whole, cut = decoder.new_state(), decoder.new_state()
    expected = feed(decoder, whole, ids)
    assert digest(feed(decoder, cut, ids, chunk), cut) == digest(expected, whole)


def test_captures_of_a_chunk_are_those_of_its_tokens(decoder: kernels.Decoder) -> None:
    ids = tokens(21, 6)
    state = decoder.new_state()
    (chunk,) = decoder.step([kernels.Row(decoder.new_state(), ids, EVERYTHING)])
    for t, token in enumerate(ids):
        (single,) = decoder.step([kernels.Row(state, [token], EVERYTHING)])
        for name in ALL_CAPTURES:
            assert chunk.captures[name][t].tobytes() == single.captures[name][0].tobytes(), (name, t)


def test_a_fork_continues_like_its_parent_and_leaves_it_alone(decoder: kernels.Decoder, prefixes: list[kernels.State]) -> None:
    """Known failure T12."""
    for parent in prefixes:
        before = parent.sha256()
        first, second = parent.fork(), parent.fork()
        a = feed(decoder, first, tokens(9, 7))
        assert parent.sha256() == before
        assert digest(feed(decoder, second, tokens(9, 7)), second) == digest(a, first)


def test_restored_states_continue_like_the_original(decoder: kernels.Decoder, prefixes: list[kernels.State]) -> None:
    for state in prefixes:
        original, restored = state.fork(), decoder.restore(state.serialise())
        assert restored.sha256() == original.sha256()
        a = feed(decoder, original, tokens(9, 8))
        assert digest(feed(decoder, restored, tokens(9, 8)), restored) == digest(a, original)


def test_numerics_modes_and_caches_are_repeatable(mote: kernels.Checkpoint) -> None:
    """Known failure T14: a second pass over warm pages and buffers gives the first one's bits, in both numerics."""
    for numerics in ("official", "fp32"):
        digests = set()
        for _ in range(2):
            decoder = kernels.Decoder(mote, numerics=numerics)
            for _ in range(2):
                state = decoder.new_state()
                digests.add(digest(feed(decoder, state, tokens(20, 9)), state))
        assert len(digests) == 1, numerics


PROGRAM = """
import kernels
from rows import ALL_CAPTURES, digest, feed, tokens
checkpoint = kernels.Checkpoint.open(kernels.builtin_checkpoint())
for numerics in ("official", "fp32"):
    decoder = kernels.Decoder(checkpoint, numerics=numerics)
    state, other = decoder.new_state(), decoder.new_state()
    feed(decoder, state, tokens(130, 1))
    feed(decoder, other, tokens(5, 2))
    everything = kernels.Intervention(capture=ALL_CAPTURES)
    rows = [kernels.Row(s, tokens(2, 3), everything) for s in (state, other, state.fork(), other.fork())]
    print([digest(r, row.state) for r, row in zip(decoder.step(rows), rows)])
"""


def run_with(isa: str) -> str:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "RUNNER_ISA": isa, "PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True).stdout


def test_instruction_sets_agree() -> None:
    """The scalar kernels are the definition; the vector kernels equal them bit for bit."""
    wider = kernels.instruction_sets()[1:]
    if not wider:
        pytest.skip("this CPU has no vector kernels")
    expected = run_with("scalar")
    for isa in wider:
        assert run_with(isa) == expected, isa


def test_unknown_instruction_set_is_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_with("avx9000")
    assert "RUNNER_ISA: found avx9000" in error.value.stderr


class FloatingPointEnvironment(ctypes.Structure):
    """glibc's fenv_t on x86-64; MXCSR is its last word."""

    _fields_ = (("x87", ctypes.c_uint8 * 28), ("mxcsr", ctypes.c_uint32))


@pytest.fixture
def hostile_float_environment() -> Iterator[None]:
    """Flush-to-zero, denormals-are-zero and rounding upward, as a host program might have left them."""
    libm = ctypes.CDLL("libm.so.6")
    saved, changed = FloatingPointEnvironment(), FloatingPointEnvironment()
    libm.fegetenv(ctypes.byref(saved))
    libm.fegetenv(ctypes.byref(changed))
    changed.mxcsr |= 0x8040 | 0x4000
    libm.fesetenv(ctypes.byref(changed))
    assert np.float32(1e-38) * np.float32(0.1) == 0, "the environment was not changed"
    yield
    libm.fesetenv(ctypes.byref(saved))


def test_the_callers_float_environment_changes_nothing(
    mote: kernels.Checkpoint, prefixes: list[kernels.State], alone: list[str], hostile_float_environment: None
) -> None:
    state = prefixes[0].fork()
    (result,) = kernels.Decoder(mote, threads=2).step([kernels.Row(state, tokens(1, 1000), EVERYTHING)])
    assert digest(result, state) == alone[0]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mixture_of_rows_gives_each_row_its_own_bits(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefixes: list[kernels.State], data: st.DataObject
) -> None:
    """Random mixtures of positions, chunk lengths, interventions, forks and restores, in one step against one row a step."""
    threads = data.draw(st.sampled_from([1, 2]), label="threads")
    count = data.draw(st.integers(1, 9), label="rows")
    rows, expected = [], []
    for _ in range(count):
        prefix = prefixes[data.draw(st.integers(0, len(prefixes) - 1), label="prefix")]
        state = decoder.restore(prefix.serialise()) if data.draw(st.booleans(), label="restored") else prefix.fork()
        ids = tokens(data.draw(st.integers(1, 5), label="tokens"), data.draw(st.integers(0, 99), label="seed"))
        layers = data.draw(st.lists(st.integers(0, mote.config.num_hidden_layers - 1), max_size=3, unique=True), label="layers")
        aggregation = {
            layer: (
                data.draw(st.sampled_from(["P32", "C", "A", "B"]), label="scheme"),
                data.draw(st.integers(0, 719), label="order"),
            )
            for layer in layers
        }
        intervention = kernels.Intervention(
            aggregation=aggregation, capture=ALL_CAPTURES, capture_layers=[0, 5, mote.config.num_hidden_layers - 1]
        )
        twin = prefix.fork()
        (single,) = decoder.step([kernels.Row(twin, ids, intervention)])
        expected.append(digest(single, twin))
        rows.append(kernels.Row(state, ids, intervention))
    results = kernels.Decoder(mote, threads=threads).step(rows)
    assert [digest(result, row.state) for result, row in zip(results, rows, strict=True)] == expected

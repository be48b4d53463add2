"""Rows of one step that share tokens, layers and changes are computed once: each must still get what it would get alone."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ALL_CAPTURES, digest, feed, tokens

import kernels
from benchmarks.memory import heap_bytes

PROMPT = 130  # tokens: past the window, and far enough for the indexer to cut
TOKEN = 42


@pytest.fixture(scope="module")
def prefix(decoder: kernels.Decoder) -> kernels.State:
    state = decoder.new_state()
    feed(decoder, state, tokens(PROMPT, 3))
    return state


def changes(last: int) -> list[kernels.Intervention | None]:
    """Equal and different ones at the first, a middle and the last layer."""
    forced = [1, 2, 3, 4, 5, 6]
    return [
        None,
        kernels.Intervention(capture=ALL_CAPTURES),
        kernels.Intervention(aggregation={0: ("B", 1)}),
        kernels.Intervention(aggregation={0: ("B", 1)}, capture=["moe_output", "logits"], capture_layers=[0, last]),
        kernels.Intervention(aggregation={5: ("A", 700)}, capture=["route", "moe_terms"]),
        kernels.Intervention(aggregation={5: ("A", 700), last: ("P32", 9)}),
        kernels.Intervention(aggregation={5: ("native", 0)}),
        kernels.Intervention(routes={5: forced}, capture=["post_mhc", "index_rows"]),
        kernels.Intervention(routes={5: forced}, aggregation={5: ("B", 3)}),
        kernels.Intervention(routes={last: forced[::-1]}, capture=["router_scores"]),
        None,
    ]


@pytest.mark.parametrize("threads", [1, 3])
def test_each_row_of_a_bundle_gets_what_it_gets_alone(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State, threads: int
) -> None:
    together = kernels.Decoder(mote, threads=threads)
    made = changes(mote.config.num_hidden_layers - 1)
    copies = [decoder.restore(prefix.serialise()) for _ in made]
    forks = [prefix.fork() for _ in made]
    before = prefix.sha256()
    # the second and third steps part rows by what the first made of them, and by their tokens
    for fed in ([TOKEN], [7, 8, 9], [11]):
        each = (
            [fed if row % 4 else [token + 1 for token in fed] for row in range(len(made))] if fed == [11] else [fed] * len(made)
        )
        alone = [decoder.step([kernels.Row(*row)])[0] for row in zip(copies, each, made, strict=True)]
        found = together.step([kernels.Row(*row) for row in zip(forks, each, made, strict=True)])
        for row in range(len(made)):
            assert digest(found[row], forks[row]) == digest(alone[row], copies[row]), f"row {row} after {fed}"
            assert found[row].token == alone[row].token
    assert prefix.sha256() == before


def test_rows_that_never_shared_a_state_are_apart(decoder: kernels.Decoder, prefix: kernels.State) -> None:
    other = decoder.new_state()
    feed(decoder, other, tokens(PROMPT, 4))
    rows = [prefix.fork(), other.fork(), prefix.fork()]
    results = decoder.step([kernels.Row(state, [TOKEN]) for state in rows])
    alone = [decoder.step([kernels.Row(decoder.restore(state.serialise()), [TOKEN])])[0] for state in (prefix, other)]
    assert [r.logits.tobytes() for r in results] == [alone[i].logits.tobytes() for i in (0, 1, 0)]


def test_a_fork_of_a_bundled_row_is_its_own(decoder: kernels.Decoder, prefix: kernels.State) -> None:
    a, b = prefix.fork(), prefix.fork()
    decoder.step([kernels.Row(a, [TOKEN]), kernels.Row(b, [TOKEN])])
    child, before = a.fork(), b.sha256()
    assert a.sha256() == before
    decoder.step([kernels.Row(child, [5])])
    decoder.step([kernels.Row(a, [6])])
    assert b.sha256() == before
    assert len({a.sha256(), b.sha256(), child.sha256()}) == 3


def test_a_state_that_takes_a_delta_leaves_those_alone_that_shared_its_layers(
    decoder: kernels.Decoder, prefix: kernels.State
) -> None:
    a, b = prefix.fork(), prefix.fork()
    decoder.step([kernels.Row(a, [TOKEN]), kernels.Row(b, [TOKEN])])
    before, values = b.sha256(), np.array(a.values())
    delta = np.where(np.isfinite(values), values, 0).astype(np.float32)
    with np.errstate(invalid="ignore"):
        a.add_delta(delta, values, values + delta)
    assert b.sha256() == before != a.sha256()


def test_a_failure_in_a_late_layer_gives_all_rows_their_shared_layers_back(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State
) -> None:
    last = mote.config.num_hidden_layers - 1
    ones = np.ones((mote.config.hc_mult, mote.config.hidden_size), np.float32)
    wrong = kernels.Intervention(post_mhc_delta=kernels.PostMhcDelta(last, ones, ones, ones))
    a, b, c = prefix.fork(), prefix.fork(), prefix.fork()
    decoder.step([kernels.Row(state, [TOKEN]) for state in (a, b, c)])
    before = a.sha256()
    for rows in ([a, b], [a, b, c]):  # as some and as all that share their layers
        with pytest.raises(kernels.StateMismatch):
            decoder.step([kernels.Row(rows[0], [9]), *(kernels.Row(state, [9], wrong) for state in rows[1:])])
        assert a.sha256() == b.sha256() == c.sha256() == before
    results = decoder.step([kernels.Row(state, [9]) for state in (a, b, c)])
    alone = decoder.restore(prefix.serialise())
    feed(decoder, alone, [TOKEN])
    assert {r.logits.tobytes() for r in results} == {feed(decoder, alone, [9]).logits.tobytes()}


def test_a_delta_is_added_once_to_rows_that_share_it(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State
) -> None:
    layer = 5
    probe = kernels.Intervention(capture=["post_mhc"], capture_layers=[layer])
    (native,) = decoder.step([kernels.Row(prefix.fork(), [TOKEN], probe)])
    before = np.array(native.captures["post_mhc"][0, 0])
    delta = np.where(np.arange(before.size).reshape(before.shape) % 7 == 0, before * np.float32(0.1), np.float32(0))

    def change() -> kernels.Intervention:
        return kernels.Intervention(post_mhc_delta=kernels.PostMhcDelta(layer, delta, before, before + delta))

    shared, equal = change(), change()
    made = [None, shared, None, shared, equal]
    forks = [prefix.fork() for _ in made]
    results = decoder.step([kernels.Row(state, [TOKEN], one) for state, one in zip(forks, made, strict=True)])
    for state, one, result in zip(forks, made, results, strict=True):
        copy = decoder.restore(prefix.serialise())
        (alone,) = decoder.step([kernels.Row(copy, [TOKEN], one)])
        assert digest(result, state) == digest(alone, copy)
    assert forks[1].sha256() == forks[3].sha256() == forks[4].sha256() != forks[0].sha256()


def test_branches_share_the_layers_below_their_fork(
    mote: kernels.Checkpoint, decoder: kernels.Decoder, prefix: kernels.State
) -> None:
    """What a change in a late layer leaves equal is stored once, in the step of the change and after it."""

    def grown(layer: int) -> int:
        states = [prefix.fork() for _ in range(60)]
        before = heap_bytes()
        orders = (kernels.Intervention(aggregation={layer: ("A", order)}) for order in range(len(states)))
        decoder.step([kernels.Row(state, [TOKEN], order) for state, order in zip(states, orders, strict=True)])
        decoder.step([kernels.Row(state, [9]) for state in states])
        return heap_bytes() - before

    grown(0)  # the decoder's own memory
    first, late = grown(0), grown(mote.config.num_hidden_layers - 2)
    assert late < first / 4

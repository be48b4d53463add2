"""The decoder on the embedded checkpoint against the numpy decoder: the study's three depth prompts, 20 tokens each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle.cases import Case, captured, existing_case, greedy, trace
from oracle.checkpoint_files import sha256
from oracle.lockstep import Flip, Lockstep, Seen, cause, observe, replay
from oracle.make_vectors import MOTE_GENERATED, MOTE_TEXTS, STATE_STRIDE, VECTORS, numpy_greedy
from oracle.step_decoder import Step
from tokenizers import Tokenizer

import kernels

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def mote_case() -> Case:
    return existing_case(kernels.builtin_checkpoint())


@dataclass(frozen=True)
class Run:
    """The decoder's own greedy continuation of one prompt, compared with the numpy decoder half a layer at a time."""

    case: Case
    name: str
    prompt: list[int]
    ids: list[int]
    seen: list[Seen]
    lockstep: Lockstep

    @property
    def flips(self) -> list[Flip]:
        return self.lockstep.report.flips

    def replay(self, flips: Sequence[Flip], length: int | None = None) -> list[Step]:
        return replay(self.case.geometry, self.case.weights, self.ids[:length], flips)

    def captures(self, name: str) -> npt.NDArray[Any]:
        return np.stack([seen.captures[name] for seen in self.seen])


def prompt_ids(name: str) -> list[int]:
    return Tokenizer.from_file(str(kernels.builtin_checkpoint() / "tokenizer.json")).encode(MOTE_TEXTS[name]).ids


@pytest.fixture(scope="module", params=MOTE_TEXTS)
def run(request: pytest.FixtureRequest, mote_case: Case) -> Run:
    decoder, prompt = mote_case.decoder(), prompt_ids(request.param)
    ids = greedy(decoder, prompt, MOTE_GENERATED)
    seen, lockstep = list(observe(decoder, ids)), Lockstep(mote_case.geometry, mote_case.weights)
    for token in seen:
        lockstep.compare(token)
    return Run(mote_case, request.param, prompt, ids, seen, lockstep)


@pytest.fixture(scope="module")
def vectors(mote_case: Case) -> dict[str, Arrays]:
    """The committed vectors by prompt, which must be the embedded checkpoint's."""
    loaded = {name: dict(np.load(VECTORS / f"mote_{name}.npz")) for name in MOTE_TEXTS}
    stale = [name for name, found in loaded.items() if str(found["checkpoint"]) != sha256(mote_case.tensors)]
    assert not stale, f"the embedded checkpoint changed: `python -m oracle.make_vectors mote CHECKPOINT` makes {stale} anew"
    return loaded


@pytest.mark.parametrize("name", MOTE_TEXTS)
def test_the_vectors_begin_with_the_prompt(vectors: dict[str, Arrays], name: str) -> None:
    assert vectors[name]["official_ids"][: int(vectors[name]["prompt_length"])].tolist() == prompt_ids(name)


@pytest.mark.parametrize("name", MOTE_TEXTS)
def test_padding_matters_from_the_first_compressed_row_on(vectors: dict[str, Arrays], name: str) -> None:
    """A compressed row lies in an attention block of its own, or else among the window's keys (reference section 7)."""
    padded, plain = vectors[name]["official_top_logits"], vectors[name]["official_unpadded_top_logits"]
    assert np.array_equal(padded[:3], plain[:3])
    assert not np.array_equal(padded[3:], plain[3:])


@pytest.mark.slow
@pytest.mark.parametrize("name", MOTE_TEXTS)
def test_numpy_still_gives_the_committed_run(mote_case: Case, vectors: dict[str, Arrays], name: str) -> None:
    run = numpy_greedy(mote_case.geometry, mote_case.weights, prompt_ids(name), MOTE_GENERATED, pad_window=True)
    assert np.array_equal(run["ids"], vectors[name]["official_ids"])
    assert np.array_equal(run["routes"], vectors[name]["official_routes"])
    assert np.allclose(run["route_weights"], vectors[name]["official_route_weights"], rtol=0, atol=1e-6)
    assert np.allclose(run["state"][::STATE_STRIDE], vectors[name]["official_state"], rtol=1e-6, atol=1e-6)


def test_half_layers_differ_by_nothing_but_flips_at_ties(run: Run) -> None:
    report = run.lockstep.report
    print(report, *report.flips, sep="\n  ")
    assert report.unexplained == []


@pytest.mark.slow
def test_the_run_is_the_numpy_run_with_those_flips(run: Run) -> None:
    """Every stream after every layer bit for bit, hence routes and greedy ids."""
    steps = run.replay(run.flips)
    assert np.array_equal(trace(steps, "post_mhc"), run.captures("post_mhc"))
    assert np.array_equal(trace(steps, "route"), run.captures("route"))
    prompt = len(run.prompt)
    assert [int(np.argmax(step.logits)) for step in steps[prompt - 1 : -1]] == run.ids[prompt:]


def test_the_state_after_it_is_the_numpy_state_with_those_flips(run: Run) -> None:
    """Reference section 11: the canonical order, and -inf where nothing was written; compressor sums are FP32."""
    assert np.allclose(run.seen[-1].state, run.lockstep.numpy.state.values(), rtol=1e-5, atol=1e-5)


def test_routes_before_the_first_flip_are_the_committed_ones(run: Run, vectors: dict[str, Arrays]) -> None:
    first = min((flip.position for flip in run.flips), default=len(run.seen))
    assert np.array_equal(run.captures("route")[:first], vectors[run.name]["official_routes"][:first])


@pytest.mark.slow
def test_greedy_ids_are_the_committed_ones_or_a_flip_is_shown(run: Run, vectors: dict[str, Arrays]) -> None:
    expected = vectors[run.name]["official_ids"].tolist()
    place = _common(run.ids, expected)
    if place < len(expected):
        shown = _shown(run, lambda flips: _id(run, place, flips) != expected[place])
        print(f"id {place} is {run.ids[place]}, not {expected[place]}; {shown}")


@pytest.mark.slow
def test_routes_are_the_committed_ones_or_a_flip_is_shown(run: Run, vectors: dict[str, Arrays]) -> None:
    """As long as both process the same ids."""
    length = _common(run.ids, vectors[run.name]["official_ids"].tolist())
    expected = np.sort(vectors[run.name]["official_routes"], -1)[:length]
    different = np.argwhere(np.any(np.sort(run.captures("route")[:length], -1) != expected, -1))
    if len(different):
        position, layer = (int(place) for place in different[0])

        def differs(flips: Sequence[Flip]) -> bool:
            route = run.replay(flips, position + 1)[-1].layers[layer].route
            return not np.array_equal(np.sort(route), expected[position, layer])

        rest = f"{len(different)} of {expected[..., 0].size} differ"
        print(f"route at position {position}, layer {layer}, is the first of which {rest}; {_shown(run, differs)}")


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many ids are equal from the start."""
    return next((place for place, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]), len(ours))


def _id(run: Run, place: int, flips: Sequence[Flip]) -> int:
    return int(np.argmax(run.replay(flips, place)[-1].logits))


def _shown(run: Run, differs: Callable[[Sequence[Flip]], bool]) -> str:
    """The numpy decoder agrees with the vectors without flips and with the decoder with them: one of them is the cause."""
    assert not differs([])
    assert differs(run.flips)
    return f"caused by {cause(run.flips, differs)}"


def test_fp32_logits_and_routes_are_the_exact_ones(run: Run) -> None:
    tokens = run.ids[:12]
    captures = captured(run.case.decoder("fp32"), tokens, ["logits", "route"])
    steps = run.case.numpy_steps(tokens, official=False)
    assert np.abs(captures["logits"] - np.stack([step.logits for step in steps])).max() <= 5e-4
    clear = trace(steps, "router_margin") > 1e-4
    assert np.array_equal(np.sort(captures["route"], -1)[clear], np.sort(trace(steps, "route"), -1)[clear])

"""The decoder on the embedded checkpoint against the numpy decoder: the study's three depth prompts, 20 tokens each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle.cases import Case, captured, existing_case, greedy, trace
from oracle.lockstep import Flip, Lockstep, Seen, cause, observe, replay
from oracle.make_vectors import MOTE_GENERATED, MOTE_TEXTS, STATE_STRIDE, VECTORS, numpy_greedy
from oracle.step_decoder import Step
from tokenizers import Tokenizer

import kernels


@pytest.fixture(scope="module")
def mote_case() -> Case:
    return existing_case(kernels.builtin_checkpoint())


@dataclass(frozen=True)
class Run:
    """The decoder's own greedy continuation of one prompt, compared with the numpy decoder half a layer at a time."""

    case: Case
    vectors: dict[str, npt.NDArray[Any]]
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


@pytest.fixture(scope="module", params=MOTE_TEXTS)
def run(request: pytest.FixtureRequest, mote_case: Case) -> Run:
    vectors = dict(np.load(VECTORS / f"mote_{request.param}.npz"))
    decoder = mote_case.decoder()
    ids = greedy(decoder, vectors["official_ids"][: int(vectors["prompt_length"])].tolist(), MOTE_GENERATED)
    seen, lockstep = list(observe(decoder, ids)), Lockstep(mote_case.geometry, mote_case.weights)
    for token in seen:
        lockstep.compare(token)
    return Run(mote_case, vectors, ids, seen, lockstep)


@pytest.mark.parametrize("name", MOTE_TEXTS)
def test_the_vectors_begin_with_the_prompt(name: str) -> None:
    vectors = np.load(VECTORS / f"mote_{name}.npz")
    tokenizer = Tokenizer.from_file(str(kernels.builtin_checkpoint() / "tokenizer.json"))
    assert vectors["official_ids"][: int(vectors["prompt_length"])].tolist() == tokenizer.encode(MOTE_TEXTS[name]).ids


@pytest.mark.slow
@pytest.mark.parametrize("name", MOTE_TEXTS)
def test_numpy_still_gives_the_committed_run(mote_case: Case, name: str) -> None:
    vectors = np.load(VECTORS / f"mote_{name}.npz")
    prompt = vectors["official_ids"][: int(vectors["prompt_length"])].tolist()
    run = numpy_greedy(mote_case.geometry, mote_case.weights, prompt, MOTE_GENERATED, pad_window=True)
    assert np.array_equal(run["ids"], vectors["official_ids"])
    assert np.array_equal(run["routes"], vectors["official_routes"])
    assert np.allclose(run["route_weights"], vectors["official_route_weights"], rtol=0, atol=1e-6)
    assert np.allclose(run["state"][::STATE_STRIDE], vectors["official_state"], rtol=1e-6, atol=1e-6)


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
    prompt = int(run.vectors["prompt_length"])
    assert [int(np.argmax(step.logits)) for step in steps[prompt - 1 : -1]] == run.ids[prompt:]


def test_the_state_after_it_is_the_numpy_state_with_those_flips(run: Run) -> None:
    """Reference section 11: the canonical order, and -inf where nothing was written; compressor sums are FP32."""
    assert np.allclose(run.seen[-1].state, run.lockstep.numpy.state.values(), rtol=1e-5, atol=1e-5)


def test_routes_before_the_first_flip_are_the_committed_ones(run: Run) -> None:
    first = min((flip.position for flip in run.flips), default=len(run.seen))
    assert np.array_equal(run.captures("route")[:first], run.vectors["official_routes"][:first])


@pytest.mark.slow
def test_greedy_ids_are_the_committed_ones_or_a_flip_is_shown(run: Run) -> None:
    expected = run.vectors["official_ids"].tolist()
    different = [place for place, token in enumerate(run.ids) if token != expected[place]]
    if different:
        place = different[0]
        print(
            f"id {place} is {run.ids[place]}, not {expected[place]};",
            _shown(run, lambda flips: _id(run, place, flips) != expected[place]),
        )


@pytest.mark.slow
def test_routes_are_the_committed_ones_or_a_flip_is_shown(run: Run) -> None:
    expected = np.sort(run.vectors["official_routes"], -1)
    different = np.argwhere(np.any(np.sort(run.captures("route"), -1) != expected, -1))
    if len(different):
        position, layer = (int(place) for place in different[0])

        def differs(flips: Sequence[Flip]) -> bool:
            route = run.replay(flips, position + 1)[-1].layers[layer].route
            return not np.array_equal(np.sort(route), expected[position, layer])

        print(f"route at position {position}, layer {layer}, of {len(different)} that differ;", _shown(run, differs))


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

"""The decoder against the committed vectors of the small random checkpoints; needs neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle.cases import Case, captured, greedy, trace
from oracle.formats import bf16_bits
from oracle.geometry import DTYPES, SMALL, Dtype
from oracle.lockstep import Lockstep, Seen, observe, replay
from oracle.make_vectors import SMALL_GENERATED, STREAM_POSITIONS, VECTORS, numpy_run

import kernels

Arrays = dict[str, npt.NDArray[Any]]
CAPTURED = ("logits", "route", "route_weights", "router_margin", "index_rows", "index_margin", "post_mhc")


@dataclass(frozen=True)
class Exact:
    """An fp32 run over the vectors' ids."""

    case: Case
    vectors: Arrays
    captures: Arrays


@pytest.fixture(scope="module", params=DTYPES)
def exact(request: pytest.FixtureRequest, small: Callable[[Dtype], Case]) -> Exact:
    case, vectors = small(request.param), dict(np.load(VECTORS / f"small_{request.param}.npz"))
    return Exact(case, vectors, captured(case.decoder("fp32"), vectors["ids"][:-1].tolist(), CAPTURED))


@dataclass(frozen=True)
class Official:
    """An official run over the vectors' ids, compared with the numpy decoder half a layer at a time."""

    case: Case
    vectors: Arrays
    seen: list[Seen]
    lockstep: Lockstep

    def captures(self, name: str) -> npt.NDArray[Any]:
        return np.stack([seen.captures[name] for seen in self.seen])


@pytest.fixture(scope="module", params=["bf16", "fp4fp8"])
def official(request: pytest.FixtureRequest, small: Callable[[Dtype], Case]) -> Official:
    case, vectors = small(request.param), dict(np.load(VECTORS / f"small_{request.param}.npz"))
    seen = list(observe(case.decoder(), vectors["ids"][:-1].tolist()))
    lockstep = Lockstep(SMALL, case.weights)
    for token in seen:
        lockstep.compare(token)
    return Official(case, vectors, seen, lockstep)


def test_fp32_logits_are_transformers_float64_logits(exact: Exact) -> None:
    assert np.abs(exact.captures["logits"] - exact.vectors["transformers_logits"]).max() <= 5e-4


def test_fp32_streams_are_the_exact_streams(exact: Exact) -> None:
    assert np.abs(exact.captures["post_mhc"][list(STREAM_POSITIONS)] - exact.vectors["exact_streams"]).max() <= 1e-3


@pytest.mark.parametrize("length", [3, 35])
def test_fp32_state_is_the_exact_state_in_canonical_order(exact: Exact, length: int) -> None:
    """Reference section 11; at 3 tokens most score slots were never written and hold -inf, at 35 none is left."""
    tokens = exact.vectors["ids"][:length].tolist()
    expected = numpy_run(SMALL, exact.case.weights, tokens, official=False)["state"]
    decoder = exact.case.decoder("fp32")
    state = decoder.new_state()
    decoder.step([kernels.Row(state, tokens)])
    assert np.isinf(expected).any() == (length == 3)
    assert np.allclose(state.values(), expected, rtol=0, atol=1e-4)


def test_fp32_routes_are_equal_where_the_cut_is_clear(exact: Exact) -> None:
    clear = exact.vectors["exact_router_margin"] > 1e-4
    assert clear.all()
    assert np.array_equal(np.sort(exact.captures["route"][clear], -1), np.sort(exact.vectors["exact_routes"][clear], -1))


def test_fp32_router_margins_are_the_exact_margins(exact: Exact) -> None:
    """Known failure T28: the gap at the cut is recorded, and is infinite where a table decides."""
    expected = exact.vectors["exact_router_margin"]
    assert np.isinf(expected[:, : SMALL.num_hash_layers]).all()
    assert np.allclose(exact.captures["router_margin"], expected, rtol=0, atol=1e-4)


def test_fp32_index_rows_are_equal_where_the_cut_is_clear(exact: Exact) -> None:
    clear = exact.vectors["exact_index_margin"] > 1e-3
    assert clear.all()
    assert np.array_equal(np.sort(exact.captures["index_rows"][clear], -1), np.sort(exact.vectors["exact_index_rows"][clear], -1))


def test_fp32_index_margins_are_the_exact_margins(exact: Exact) -> None:
    assert np.allclose(exact.captures["index_margin"], exact.vectors["exact_index_margin"], rtol=0, atol=1e-4)


def test_fp32_greedy_ids_are_transformers_greedy_ids(exact: Exact) -> None:
    prompt = exact.vectors["ids"][: int(exact.vectors["prompt_length"])]
    assert greedy(exact.case.decoder("fp32"), prompt.tolist(), SMALL_GENERATED) == exact.vectors["ids"].tolist()


def test_official_half_layers_differ_by_nothing_but_flips_at_ties(official: Official) -> None:
    report = official.lockstep.report
    print(report, *report.flips, sep="\n  ")
    assert report.unexplained == []


def test_official_run_is_the_numpy_run_with_those_flips(official: Official) -> None:
    """All streams, routes and index rows of the whole run, bit for bit."""
    steps = replay(SMALL, official.case.weights, official.vectors["ids"][:-1].tolist(), official.lockstep.report.flips)
    assert np.array_equal(trace(steps, "post_mhc"), official.captures("post_mhc"))
    assert np.array_equal(trace(steps, "route"), official.captures("route"))
    for step, seen in zip(steps, official.seen, strict=True):
        rows = [seen.captures["index_rows"][layer][: len(found.index_rows)] for layer, found in enumerate(step.layers)]
        assert all(np.array_equal(ours, found.index_rows) for ours, found in zip(rows, step.layers, strict=True))
        assert np.abs(step.logits - seen.captures["logits"]).max() < 1e-4


def test_official_bits_are_the_committed_ones_up_to_the_first_flip(official: Official) -> None:
    first = min((flip.position for flip in official.lockstep.report.flips), default=len(official.seen))
    layer0 = bf16_bits(official.captures("post_mhc")[:first, 0])
    assert np.array_equal(layer0, official.vectors["official_layer0_streams"][:first])
    assert np.array_equal(official.captures("route")[:first], official.vectors["official_routes"][:first])
    assert np.array_equal(official.captures("index_rows")[:first], official.vectors["official_index_rows"][:first])
    difference = np.abs(official.captures("logits")[:first] - official.vectors["official_logits"][:first])
    assert difference.max(initial=0) < 1e-4


def test_official_values_in_layer_0_flip_one_at_a_time(official: Official) -> None:
    """Half a layer at a time, layer 0 takes isolated roundings the other way, of one BF16 number each where nothing cancels."""
    flips = [flip for flip in official.lockstep.report.flips if flip.point.startswith("layers.0.")]
    print(len(flips), "flips in layer 0 over", len(official.seen), "tokens")
    assert len(flips) <= len(official.seen)

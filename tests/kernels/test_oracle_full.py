"""The full check: prompts of 70 and 40 generated tokens at full geometry, for every storage format, against transformers.

Runs where torch and transformers are installed (`make oracle`). Vectors take a minute a dtype to make, so they are kept in
pytest's cache under a digest of everything they depend on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from oracle import make_vectors
from oracle.cases import Case, captured, existing_case, greedy, trace
from oracle.geometry import DTYPES, Dtype
from oracle.lockstep import Lockstep, Seen, observe, replay

Arrays = dict[str, npt.NDArray[Any]]
ABSENT = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.oracle, pytest.mark.skipif(bool(ABSENT), reason=f"needs {' and '.join(ABSENT)}")]

CAPTURED = ("logits", "route", "index_rows", "post_mhc")


def _digest(dtype: Dtype) -> str:
    """What the vectors of a dtype depend on: the makers' source, the libraries' versions."""
    package = Path(make_vectors.__file__).parent
    sources = [source for source in sorted(package.glob("*.py")) if source.stem not in ("cases", "lockstep")]
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "torch", "transformers")]
    parts = [dtype.encode(), *(source.read_bytes() for source in sources), repr(versions).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> Callable[[Dtype], tuple[Case, Arrays]]:
    """Checkpoint and vectors of a dtype, made or taken from the cache."""

    def get(dtype: Dtype) -> tuple[Case, Arrays]:
        directory = Path(pytestconfig.cache.mkdir("oracle")) / f"{dtype}-{_digest(dtype)[:16]}"
        if not directory.is_dir():
            unfinished = directory.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make_vectors.full_vectors(dtype, unfinished)
            unfinished.rename(directory)
        return existing_case(directory), dict(np.load(directory / "vectors.npz"))

    return get


@dataclass(frozen=True)
class Exact:
    case: Case
    vectors: Arrays
    captures: Arrays


@pytest.fixture(scope="module", params=DTYPES)
def exact(request: pytest.FixtureRequest, full: Callable[[Dtype], tuple[Case, Arrays]]) -> Exact:
    """fp32 numerics over the vectors' ids."""
    case, vectors = full(request.param)
    return Exact(case, vectors, captured(case.decoder("fp32", threads=2), vectors["ids"][:-1].tolist(), CAPTURED))


@dataclass(frozen=True)
class Official:
    case: Case
    vectors: Arrays
    seen: list[Seen]
    lockstep: Lockstep

    def captures(self, name: str) -> npt.NDArray[Any]:
        return np.stack([seen.captures[name] for seen in self.seen])


@pytest.fixture(scope="module", params=["bf16", "fp4fp8"])
def official(request: pytest.FixtureRequest, full: Callable[[Dtype], tuple[Case, Arrays]]) -> Official:
    """Official numerics over the vectors' ids, compared with the numpy decoder half a layer at a time."""
    case, vectors = full(request.param)
    seen, lockstep = list(observe(case.decoder(threads=2), vectors["ids"][:-1].tolist())), Lockstep(case.geometry, case.weights)
    for token in seen:
        lockstep.compare(token)
    return Official(case, vectors, seen, lockstep)


def test_fp32_logits_are_transformers_float64_logits(exact: Exact) -> None:
    difference = np.abs(exact.captures["logits"] - exact.vectors["transformers_logits"]).max()
    print(f"largest logit difference {difference:.2e}; transformers' own float32 {exact.vectors['float32_error']:.2e}")
    assert difference <= 5e-4


def test_fp32_streams_are_transformers_float64_streams(exact: Exact) -> None:
    assert np.abs(exact.captures["post_mhc"] - exact.vectors["transformers_streams"]).max() <= 1e-3


def test_fp32_routes_are_equal_where_the_cut_is_clear(exact: Exact) -> None:
    margin = exact.vectors["exact_router_margin"]
    clear = margin > 1e-4
    print(f"{np.count_nonzero(~clear)} of {clear.size} cuts are not clear; least margin {margin.min():.1e}")
    assert np.array_equal(np.sort(exact.captures["route"][clear], -1), exact.vectors["transformers_routes"][clear])


def test_fp32_index_rows_are_equal_where_the_cut_is_clear(exact: Exact) -> None:
    margin = exact.vectors["exact_index_margin"]
    clear = margin > 1e-3
    print(f"{np.count_nonzero(~clear)} of {clear.size} cuts are not clear; least margin {margin.min():.1e}")
    assert np.array_equal(np.sort(exact.captures["index_rows"][clear], -1), np.sort(exact.vectors["exact_index_rows"][clear], -1))


def test_fp32_greedy_ids_are_transformers_greedy_ids(exact: Exact) -> None:
    prompt = exact.vectors["ids"][: int(exact.vectors["prompt_length"])].tolist()
    assert greedy(exact.case.decoder("fp32", threads=2), prompt, make_vectors.FULL_GENERATED) == exact.vectors["ids"].tolist()


def test_official_half_layers_differ_by_nothing_but_flips_at_ties(official: Official) -> None:
    print(official.lockstep.report, *official.lockstep.report.flips, sep="\n  ")
    assert official.lockstep.report.unexplained == []


def test_official_run_is_the_numpy_run_with_those_flips(official: Official) -> None:
    """Every stream bit for bit, hence routes, index rows and greedy ids."""
    tokens, flips = official.vectors["ids"][:-1].tolist(), official.lockstep.report.flips
    steps = replay(official.case.geometry, official.case.weights, tokens, flips)
    assert np.array_equal(trace(steps, "post_mhc"), official.captures("post_mhc"))
    assert np.array_equal(trace(steps, "route"), official.captures("route"))
    ours, theirs = np.stack([step.logits for step in steps]), official.captures("logits")
    assert np.abs(ours - theirs).max() <= 1e-4
    assert np.array_equal(ours.argmax(-1), theirs.argmax(-1))


def test_official_layer_0_flips_are_isolated(official: Official) -> None:
    """Given equal input and state, streams after layer 0 differ by single roundings, of one BF16 number unless terms cancel."""
    flips = [flip for flip in official.lockstep.report.flips if flip.point == "layers.0.post_mhc"]
    values = official.captures("post_mhc")[:, 0].size
    free = np.count_nonzero(official.captures("post_mhc")[:, 0] != official.vectors["official_streams"][:, 0])
    print(f"{len(flips)} of {values} layer-0 stream values flip; {free} differ from a run without any flip")
    assert len(flips) <= values / 10_000


def test_official_routes_and_ids_are_the_vectors_up_to_the_first_flip(official: Official) -> None:
    first = min((flip.position for flip in official.lockstep.report.flips), default=len(official.seen))
    routes = np.all(np.sort(official.captures("route"), -1) == np.sort(official.vectors["official_routes"], -1), axis=-1)
    ids = official.captures("logits").argmax(-1) == official.vectors["official_logits"].argmax(-1)
    recurring = f"{routes.mean():.1%} of routes and {ids.mean():.1%} of next ids"
    print(f"first flip at position {first}; {recurring} equal the run without flips")
    assert routes[:first].all()
    assert ids[:first].all()

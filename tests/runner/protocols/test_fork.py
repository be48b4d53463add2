from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernels
from runner.protocols.fork import Classes, Fork, same_bits
from schemas.errors import ConformanceFinding

HIDDEN, STREAMS, EXPERTS = 64, 4, 6


def made_fork(seed: int = 1, spread: float = 1.0) -> Fork:
    """A fork with random operands and the native results that kernels give for them."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * spread).astype(np.float32)

    def rounded(values: np.ndarray) -> np.ndarray:
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    experts = random.permutation(32)[:EXPERTS].astype(np.int32)
    terms, shared = normal(EXPERTS, HIDDEN), rounded(normal(HIDDEN))
    residual, post, comb = rounded(normal(STREAMS, HIDDEN)), np.abs(normal(STREAMS)), np.abs(normal(STREAMS, STREAMS))
    output = kernels.aggregate(terms, shared, "native", [0], expert_ids=experts.tolist())
    stream = kernels.hc_post(output, residual, post, comb)[0]
    return Fork(experts, terms, shared, residual, post, comb, output[0], stream)


def test_native_results_are_reproduced() -> None:
    made_fork().require_native("here")


def test_other_output_is_a_finding() -> None:
    fork = made_fork()
    changed = fork.moe_output.copy()
    changed[7] = np.nextafter(changed[7], np.float32(np.inf))
    with pytest.raises(ConformanceFinding, match="p1: the captured expert terms do not add up"):
        replace(fork, moe_output=changed).require_native("p1")


def test_other_stream_is_a_finding() -> None:
    fork = made_fork()
    with pytest.raises(ConformanceFinding, match="does not give the captured native post-mHC state"):
        replace(fork, post_mhc=-fork.post_mhc).require_native("p1")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_operands_that_are_not_finite_are_refused(value: float) -> None:
    fork = made_fork()
    terms = fork.terms.copy()
    terms[2, 3] = value
    with pytest.raises(ValueError, match="p1: expert terms that are not finite"):
        replace(fork, terms=terms).require_native("p1")


def test_six_terms_have_360_classes() -> None:
    fork = made_fork()
    classes = Classes.enumerate(fork, "here")
    assert classes.orders == kernels.structural_classes(EXPERTS)
    assert len(classes.orders) == 360
    assert classes.streams.shape == (360, STREAMS, HIDDEN)


def test_every_class_is_what_its_lower_order_gives() -> None:
    fork = made_fork()
    classes = Classes.enumerate(fork, "here")
    for index in (0, 17, 359):
        low, high = classes.orders[index]
        for order in (low, high):
            output = kernels.aggregate(fork.terms, fork.shared, "B", [order])
            assert same_bits(fork.streams(output)[0], classes.streams[index])


def test_differences_are_the_largest_absolute_ones() -> None:
    fork = made_fork()
    classes = Classes.enumerate(fork, "here")
    for index in (3, 200):
        output = kernels.aggregate(fork.terms, fork.shared, "B", [classes.orders[index][0]])[0]
        assert classes.linf_output[index] == max(abs(a - b) for a, b in zip(output, fork.moe_output, strict=True))
        stream = classes.streams[index].ravel()
        assert classes.linf_stream[index] == max(abs(a - b) for a, b in zip(stream, fork.post_mhc.ravel(), strict=True))


def test_farthest_is_the_lowest_of_equals() -> None:
    classes = Classes.enumerate(made_fork(), "here")
    tied = replace(classes, linf_stream=np.array([0.25, 0.5, 0.125, 0.5], dtype=np.float32))
    assert tied.farthest() == 1


def test_terms_that_bf16_adds_exactly_make_all_classes_native() -> None:
    fork = made_fork()
    terms = np.round(fork.terms * 4).astype(np.float32)  # small integers: every sum is exact
    shared = np.round(fork.shared * 4).astype(np.float32)
    output = kernels.aggregate(terms, shared, "native", [0], expert_ids=fork.experts.tolist())
    exact = replace(fork, terms=terms, shared=shared, moe_output=output[0], post_mhc=fork.streams(output)[0])
    classes = Classes.enumerate(exact, "here")
    assert classes.equals_native.all()
    assert classes.farthest() == 0
    assert len(set(classes.stream_sha256)) == 1


def test_a_pair_that_is_not_equal_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "structural_classes", lambda k: [(0, 719)])
    with pytest.raises(ConformanceFinding, match="differ only in their first two terms"):
        Classes.enumerate(made_fork(), "p1")


def test_bits_tell_zeros_apart_and_nans_equal() -> None:
    zero = np.zeros(2, dtype=np.float32)
    nan = np.full(2, np.nan, dtype=np.float32)
    assert not same_bits(zero, -zero)
    assert same_bits(nan, nan.copy())

"""Pseudo-repetitive rows and the loss on them."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from training.repetition import repeat_ends, repetition_loss  # noqa: E402


def test_a_row_repeats_the_end_of_its_prefix_and_counts_eight_periods_of_it():
    rows = torch.arange(6 * 201).view(6, 201)
    made = repeat_ends(rows, torch.Generator().manual_seed(1), lag=(3, 7), before=(10, 20))
    for before, after, (lag,), counted in zip(rows, made.rows, made.lag.tolist(), made.counted, strict=True):
        prefix = int((before == after).sum())
        assert 3 <= lag < 7
        assert 10 <= prefix - lag < 20
        assert torch.equal(after[:prefix], before[:prefix])
        assert torch.equal(after[prefix:], after[prefix - lag : -lag])
        places = counted.nonzero()[:, 0] + 1  # a target stands one behind its place in the loss
        assert places.tolist() == list(range(prefix, prefix + 8 * lag))


def test_rows_follow_the_generator():
    rows = torch.arange(4 * 101).view(4, 101)
    one, again, other = (repeat_ends(rows, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.rows, again.rows)
    assert not torch.equal(one.rows, other.rows)


def test_a_token_half_as_likely_as_one_period_before_costs_nothing():
    p = torch.tensor([[0.8, 0.6, 0.4, 0.6, 0.1, 0.3]])
    lag, counted = torch.tensor([[2]]), torch.tensor([[False, False, True, True, True, True]])
    loss = repetition_loss(p.log(), lag, counted)[0].tolist()
    assert loss[:3] == pytest.approx([0, 0, 0], abs=1e-6)
    assert loss[3] == pytest.approx(-math.log(1 - 0.3), abs=1e-6)  # 0.6 where 0.3 is asked for
    assert loss[4] == pytest.approx(-math.log(1 - 0.1), abs=1e-6)  # too unlikely counts too
    assert loss[5] == pytest.approx(0, abs=1e-6)


def test_the_earlier_probability_has_no_gradient():
    log_prob = torch.tensor([[0.5, 0.9]]).log().requires_grad_()
    repetition_loss(log_prob, torch.tensor([[1]]), torch.tensor([[False, True]])).sum().backward()
    assert log_prob.grad[0, 0] == 0
    assert log_prob.grad[0, 1] > 0


def test_a_certain_repetition_has_a_finite_loss():
    assert torch.isfinite(repetition_loss(torch.zeros(1, 2), torch.tensor([[5]]), torch.ones(1, 2, dtype=torch.bool))).all()

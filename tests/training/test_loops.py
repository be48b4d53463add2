"""Pseudo-repetitive rows and the measure of loops."""

import pytest

torch = pytest.importorskip("torch")

from training.batches import loop_loss, make_loops  # noqa: E402
from training.generate import loops  # noqa: E402
from training.polish import repeated  # noqa: E402


def test_rows_repeat_with_their_period_where_counted():
    rows = torch.arange(257).repeat(8, 1)
    made = make_loops(rows, torch.Generator().manual_seed(1))
    for row, lag, counted in zip(made.rows, made.lag[:, 0].tolist(), made.counted, strict=False):
        at = counted.nonzero()[:, 0] + 1
        assert len(at)
        assert torch.equal(row[at], row[at - lag])


def test_loss_is_least_where_probability_halves():
    rows = torch.arange(257).repeat(4, 1)
    made = make_loops(rows, torch.Generator().manual_seed(2))
    flat, falling = torch.full((4, 256), 0.8).log(), torch.zeros(4, 256)
    for i in range(4):
        prefix = int(made.counted[i].nonzero()[0])
        falling[i] = 0.8 * 0.5 ** torch.div(
            (torch.arange(256) - prefix + made.lag[i]).clamp_min(0), made.lag[i], rounding_mode="floor"
        )
    assert loop_loss(falling.log(), made) < 0.1 * loop_loss(flat, made)


def test_a_loop_is_an_eight_gram_that_stands_three_times():
    assert loops(list(range(8)) * 3)
    assert not loops(list(range(8)) * 2)
    assert not loops(list(range(64)))


def test_marks_stand_on_tokens_that_complete_a_repeated_gram():
    marks = repeated(torch.tensor([1, 2, 3, 1, 2, 3, 4]), prompt=2, gram=2)
    assert marks.tolist() == [False, False, False, False, True, True, False]

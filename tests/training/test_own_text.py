"""The decoder's own text: what is marked in it, what counts as a loop, and what the loss against it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training.batches import Windows  # noqa: E402
from training.generate import greedy, loops  # noqa: E402
from training.model import INFERENCE  # noqa: E402
from training.own_text import END, OwnText, looping, repeated, unlikelihood  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from training.model import Decoder


def test_marks_stand_on_tokens_that_complete_a_repeated_gram():
    ids = torch.tensor([[1, 2, 3, 1, 2, 3, 4], [5, 5, 5, 5, 6, 7, 8]])
    marks = repeated(ids, torch.tensor([2, 3]), size=2)
    assert marks.int().tolist() == [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 0, 0, 0]]


def test_prompts_are_never_marked():
    ids = torch.tensor([[1, 2, 1, 2, 1, 2, 1, 2]])
    assert repeated(ids, torch.tensor([6]), size=2).int().tolist() == [[0, 0, 0, 0, 0, 0, 1, 1]]


def test_a_loop_is_an_eight_gram_that_stands_three_times():
    rows = [list(range(8)) * 3, list(range(8)) * 2 + list(range(50, 58)), list(range(24)), [7] * 24]
    assert looping(torch.tensor(rows)).tolist() == [loops(row) for row in rows] == [True, False, False, True]


def test_unlikelihood_grows_with_the_probability_of_what_is_marked():
    p = torch.tensor([[0.1, 0.5, 0.9, 0.9]])
    loss = unlikelihood(p.log(), torch.tensor([[True, True, True, False]]))
    assert torch.allclose(loss, -torch.log1p(-p) * torch.tensor([[1, 1, 1, 0]]))
    assert torch.isfinite(unlikelihood(torch.zeros(1, 1), torch.ones(1, 1))).all()


@pytest.fixture
def stock(decoder: Decoder, token_file: Path) -> OwnText:
    windows = Windows(token_file, 16, torch.device("cpu"), 1, (1, 1, 1, 1))
    own = OwnText(decoder, windows, INFERENCE, texts=6, seed=2, prompt=(1, 3))
    own.refresh()
    return own


def test_own_text_is_what_greedy_decoding_writes(decoder: Decoder, stock: OwnText):
    for ids, given in zip(stock._ids.tolist(), stock._given.tolist(), strict=True):
        assert ids[0] == END
        (continued,) = greedy(decoder, [ids[:given]], len(ids) - given)
        assert ids[given:] == continued


def test_half_of_the_prompts_turn_to_another_place(decoder: Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stream = np.arange(2, 62, dtype=np.uint16)
    names = ("main_en", "main_zh", "extra_en", "extra_zh", "heldout_en", "heldout_zh")
    np.savez(tmp_path / "tokens.npz", **dict.fromkeys(names, stream))
    windows = Windows(tmp_path / "tokens.npz", 16, torch.device("cpu"), 1, (1, 1, 1, 1))
    own = OwnText(decoder, windows, INFERENCE, texts=400, seed=2, prompt=(2, 6))
    monkeypatch.setattr(own, "_extend", lambda: None)
    own.refresh()
    steps = own._ids[:, 1:7].diff()
    assert (own._ids[:, 0] == END).all()
    plain = (steps % 60 == 1).all(1).float().mean().item()
    assert 0.4 < plain < 0.65
    assert ((steps % 60 != 1).sum(1) <= 1).all()


def test_rows_pack_whole_texts_and_their_marks(stock: OwnText):
    rows, marks = stock.take(3)
    assert rows.shape == (3, 17)
    assert marks.shape == (3, 16)
    texts = {tuple(text) for text in stock._ids.tolist()}
    assert {tuple(row[i : i + 8].tolist()) for row in rows for i in (0, 8)} == texts
    expected = dict(zip(map(tuple, stock._ids.tolist()), repeated(stock._ids, stock._given).tolist(), strict=True))
    for row, mark in zip(rows, marks, strict=True):
        assert mark.tolist() == [*expected[tuple(row[:8].tolist())], *expected[tuple(row[8:16].tolist())], False][1:]


def test_take_goes_through_the_stock_before_it_repeats(stock: OwnText):
    taken = torch.cat([stock.take(1)[0] for _ in range(3)])
    assert len({tuple(row.tolist()) for row in taken}) == 3

"""Runs of a few steps on a tiny decoder: phases, saving and continuing, the mix of windows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training.batches import SNAP, STREAMS, Windows  # noqa: E402
from training.tokenizer import END, NEWLINE  # noqa: E402
from training.train import Recipe, Trainer  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from training.geometry import Geometry

CPU = torch.device("cpu")
RECIPE = Recipe(
    batch=4,
    length=16,
    muon_lr=0.02,
    adam_lr=0.003,
    warmup=2,
    loop_rows=1,
    own_from=0.75,
    own_rows=2,
    own_texts=4,
    own_every=2,
    dropout=0.0,
)


@pytest.fixture
def trainer(tiny: Geometry, token_file: Path):
    def make(**changes: object) -> Trainer:
        made = Trainer(dataclasses.replace(RECIPE, **changes), tiny, token_file, CPU, compiled=False)
        made.own.prompt = (1, 3)
        return made

    return make


def test_a_run_goes_through_every_phase_and_learns(trainer):
    run = trainer()
    run.advance(12, float("inf"), every=1)
    assert run.step == 12
    assert ["own_loops" in row for row in run.log] == [row["progress"] >= RECIPE.own_from for row in run.log]
    assert [row["index"] == 0 for row in run.log] == [row["progress"] < RECIPE.quantised_from for row in run.log]
    assert run.log[-1]["loss"] < run.log[0]["loss"] - 1


def test_marks_of_own_rows_are_what_their_loss_counts(trainer):
    run = trainer(quantised_from=0.0)
    run.update(0.0)
    batch = run._batch(0.0)
    batch.own[0] = 1
    assert run._compute(*batch)["own"] == 0
    batch.marks[0, 3:9] = True
    assert run._compute(*batch)["own"] > 0


def test_a_batch_holds_own_text_then_pseudo_repetitive_rows_then_training_text(trainer):
    run = trainer(length=128, own_texts=16, own_from=0.5, own_rows=1, loops_from=0.25, loop_rows=2)
    for progress, own, looped in ((0.0, 0, 0), (0.25, 0, 2), (0.5, 1, 2)):
        batch = run._batch(progress)
        assert batch.own[:, 0].tolist() == [1] * own + [0] * (4 - own)
        assert batch.looped[:, 0].tolist() == [0] * own + [1] * looped + [0] * (4 - own - looped)
        assert batch.counted.any(1).tolist() == batch.looped[:, 0].bool().tolist()
        assert not batch.marks[batch.own[:, 0] == 0].any()


def test_the_ordinary_loss_is_of_training_text_alone(trainer):
    runs = [trainer(length=128, own_rows=0, loops_from=0.0, loop_rows=2) for _ in range(2)]
    one, other = (run._batch(0.0) for run in runs)
    other.rows[:2] = 5
    for run in runs:
        run._late = False
    facts = [run._compute(*batch) for run, batch in zip(runs, (one, other), strict=True)]
    assert facts[0]["loss"] == facts[1]["loss"]
    assert facts[0]["loops"] != facts[1]["loops"]


def test_a_recipe_without_a_row_of_training_text_is_refused(trainer):
    with pytest.raises(ValueError, match="leave none of 4"):
        trainer(own_rows=2, loop_rows=2)


def test_decay_of_words_shrinks_embedding_and_head_alone(trainer):
    def after(decay: float) -> dict[str, torch.Tensor]:
        run = trainer(adam_decay=decay)
        run.update(0.0)
        return run.model.state_dict()

    with_decay, without = after(0.5), after(0.0)
    shrunk = {name for name, value in without.items() if not torch.equal(value, with_decay[name])}
    assert shrunk == {"embed", "head"}
    assert with_decay["embed"].norm() < without["embed"].norm()


def test_a_continued_run_equals_one_that_never_stopped(trainer, tmp_path: Path):
    whole, first, second = trainer(own_from=1.0), trainer(own_from=1.0), trainer(own_from=1.0)
    whole.advance(8, float("inf"))
    while first.step < 5:
        first.update(first.step / 8)
        first.step += 1
    first.save(tmp_path / "state.pt")
    second.load(tmp_path / "state.pt")
    second.advance(8, float("inf"))
    for a, b in zip(whole.model.state_dict().values(), second.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_weight_of_own_text_follows_its_loops(trainer):
    run = trainer()
    for share, grows in ((0.9, True), (0.0, False)):
        run._refresh()
        before = run._own_weight.item()
        run.own.refresh = lambda share=share: setattr(run.own, "share", share)
        run._refresh()
        assert (run._own_weight.item() > before) == grows


def test_an_epoch_reads_each_stream_as_often_as_asked(token_file: Path):
    windows = Windows(token_file, 16, CPU, 1, (2, 1, 0.5, 0))
    sizes = windows._sizes
    starts = torch.from_numpy(windows._epoch())
    counts = torch.bucketize(starts, torch.tensor(sizes).cumsum(0), right=True).bincount(minlength=4).tolist()
    per_pass = [size // 16 for size in sizes]
    assert len(counts) == len(STREAMS)
    assert counts[3] == 0
    for count, each, passes in zip(counts[:3], per_pass, (2, 1, 0.5), strict=False):
        assert abs(count - passes * each) <= 3


def test_openings_follow_ends_of_paragraphs_and_documents_of_the_narrative_streams(tmp_path: Path):
    streams = {name: np.full(1000, 7, dtype=np.uint16) for name in (*STREAMS, "heldout_en", "heldout_zh")}
    streams["main_en"][100], streams["main_zh"][[5, 990]], streams["extra_en"][50] = NEWLINE, END, END
    np.savez(tmp_path / "tokens.npz", **streams)
    windows = Windows(tmp_path / "tokens.npz", 16, CPU, 1, (1, 1, 1, 1))
    assert windows.openings.tolist() == [0, 101, 1006]  # 990 lies too near to the end for a prompt


def test_windows_follow_a_saved_state(token_file: Path):
    one, other = (Windows(token_file, 16, CPU, seed, (1, 1, 1, 1)) for seed in (1, 2))
    one.next(10)
    other.restore(one.state())
    for _ in range(20):
        assert torch.equal(one.next(7), other.next(7))


def test_a_window_cut_shortly_after_an_end_mark_begins_with_it(tmp_path: Path):
    stream = np.full(20_000, 7, dtype=np.uint16)
    ends = np.array([1500, 1550, 9000])
    stream[ends] = END
    path = tmp_path / "tokens.npz"
    np.savez(path, **dict.fromkeys((*STREAMS, "heldout_en", "heldout_zh"), stream))
    windows = Windows(path, 16, CPU, 1, (1, 0, 0, 0))
    starts = windows._epoch()
    cuts = np.setdiff1d(starts, ends)
    assert (starts == 1500).sum() == pytest.approx(50 / 16, abs=1)
    assert (starts == 1550).sum() == (starts == 9000).sum() == SNAP / 16
    for end in ends:
        assert not ((cuts > end) & (cuts < end + SNAP)).any()


def test_a_run_goes_on_where_the_heldout_measure_does_not_fit(trainer, monkeypatch: pytest.MonkeyPatch):
    run = trainer()

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(run.model, "token_log_probs", full)
    assert run.validate(0.0) == {}

"""The decoder's own greedy continuations, and unlikelihood against what repeats in them.

Greedy text of a small model falls into loops that its training text does not hold, so no loss on training text can teach
it to leave them. Here the model continues training prompts while it is trained, tokens that complete a repeated n-gram
are marked, and their probability is lowered (sequence-level unlikelihood).
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.batches import Windows
from training.captured import Captured
from training.model import Decoder, Mode
from training.repetition import against
from training.tokenizer import END

GRAM = 5  # tokens; a name of two or three may come back without being marked


def same_grams(ids: Tensor, size: int) -> Tensor:
    """bool [N, L-size+1, L-size+1]: whether the n-grams that start at i and j are equal. ids int64 [N,L]."""
    grams = ids.unfold(1, size, 1)
    equal = grams[:, :, None, 0] == grams[:, None, :, 0]
    for k in range(1, size):
        equal &= grams[:, :, None, k] == grams[:, None, :, k]
    return equal


def repeated(ids: Tensor, given: Tensor, size: int = GRAM) -> Tensor:
    """bool [N,L]: tokens past the first `given` [N] of their row that complete an n-gram which stands there before."""
    before = same_grams(ids, size).tril(-1).any(-1)
    marks = torch.nn.functional.pad(before, (size - 1, 0))
    return marks & (torch.arange(ids.shape[1], device=ids.device) >= given[:, None])


def looping(ids: Tensor, size: int = 8, times: int = 3) -> Tensor:
    """bool [N]: whether some n-gram stands at least `times` times; the batched form of `generate.loops`."""
    return (same_grams(ids, size).sum(-1) >= times).any(-1)


def unlikelihood(log_prob: Tensor, marks: Tensor) -> Tensor:
    """-log(1 - p) where marked, else 0. log_prob FP32 [B,S], marks [B,S]."""
    return against(log_prob.exp(), marks)


class OwnText:
    """A stock of greedy continuations, each one window long, packed to rows of training length.

    Args:
        texts: size of the stock.
        prompt: least and most tokens of a prompt.

    Attributes:
        share: of the newest continuations, the share whose first 64 tokens loop.
        draw: what prompts and rows are drawn with.
    """

    def __init__(
        self, model: Decoder, windows: Windows, mode: Mode, *, texts: int, seed: int, prompt: tuple[int, int] = (5, 15)
    ) -> None:
        device, self.length = model.embed.device, model.g.window
        self.model, self.windows, self.mode, self.prompt, self.share = model, windows, mode, prompt, 1.0
        self.draw = torch.Generator(device=device).manual_seed(seed)
        self._ids = torch.zeros(texts, self.length, dtype=torch.long, device=device)
        self._given = torch.zeros(texts, dtype=torch.long, device=device)
        self._at = torch.zeros(1, dtype=torch.long, device=device)
        self._extend = Captured(self._extend_once, device)
        self._left = 0

    @torch.no_grad()
    def _extend_once(self) -> None:
        """Writes the token after position `_at` of every row, unless the prompt has one there."""
        hidden = self.model(self._ids, self.mode).hidden.index_select(1, self._at)[:, 0]
        after = self._at + 1
        token = torch.where(after < self._given, self._ids.index_select(1, after)[:, 0], self.model.logits(hidden).argmax(-1))
        self._ids.index_copy_(1, after, token[:, None])
        self._at.add_(1)

    def refresh(self) -> None:
        """Continues new prompts, set after an end mark, to the end of a window.

        A prompt opens a paragraph of the narrative text, as a reader's does: loops that follow text cut anywhere were
        unlearnt without those after openings. Half of them go on, after some tokens, as another place does, so that not
        all can be continued from memory.
        """
        texts, device, (least, most) = len(self._ids), self._ids.device, self.prompt
        tokens, each = self.windows.tokens, torch.arange(most, device=device)
        opening = torch.randint(0, len(self.windows.openings), (texts, 1), generator=self.draw, device=device)
        elsewhere = torch.randint(0, len(tokens) - most, (texts, 1), generator=self.draw, device=device)
        turn = torch.randint(1, 2 * most, (texts, 1), generator=self.draw, device=device)
        self._ids.zero_()
        self._ids[:, 0] = END
        self._ids[:, 1 : 1 + most] = tokens[torch.where(each < turn, self.windows.openings[opening], elsewhere) + each].long()
        self._given.copy_(torch.randint(1 + least, 2 + most, (texts,), generator=self.draw, device=device))
        self._at.fill_(least)
        for _ in range(least + 1, self.length):
            self._extend()
        from_given = (self._given[:, None] + torch.arange(64, device=device)).clamp(max=self.length - 1)
        self.share = looping(self._ids.gather(1, from_given)).float().mean().item()
        per_row = self.windows.length // self.length
        end = torch.full((texts // per_row, 1), END, device=device)
        self._rows = torch.cat([self._ids.view(-1, self.windows.length), end], 1)
        self._marks = torch.nn.functional.pad(repeated(self._ids, self._given).view(-1, self.windows.length), (0, 1))
        self._left = 0

    def take(self, count: int) -> tuple[Tensor, Tensor]:
        """rows int64 [count, length+1] of the stock and the marks of their targets, bool [count, length]."""
        if self._left < count:
            self._order = torch.randperm(len(self._rows), generator=self.draw, device=self._rows.device)
            self._left = len(self._rows)
        pick = self._order[self._left - count : self._left]
        self._left -= count
        return self._rows[pick], self._marks[pick, 1:]

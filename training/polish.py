"""Teaches a trained checkpoint to leave its own loops: unlikelihood on its own greedy continuations.

    python -m training.polish CHECKPOINT WORK OUT --seconds 90

Pseudo-repetition in training (see `batches.make_loops`) shows the model loops cut from books; its own greedy loops are
other text. Each round samples greedy continuations of training prompts, marks the tokens that complete an n-gram the
continuation already holds, and takes a few small steps that lower exactly those probabilities, beside ordinary steps on
real windows that hold the rest of the model in place. Quantisation is on throughout. The rate falls linearly to zero over
the time; the last round is written.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import time
from pathlib import Path

import torch
from torch import Tensor

from training.batches import Windows
from training.export import read_checkpoint, write_checkpoint
from training.generate import greedy, loops
from training.model import Decoder, Mode


@dataclasses.dataclass
class Polish:
    """Sizes of a round. `gram` is the n-gram length whose repetition is marked; `weight` scales the unlikelihood."""

    rows: int = 192
    prompt: int = 12
    tokens: int = 96
    gram: int = 4
    steps: int = 10
    batch: int = 64
    real: int = 64
    lr: float = 1.5e-4
    weight: float = 1.0
    seed: int = 5


def repeated(row: Tensor, prompt: int, gram: int) -> Tensor:
    """bool like row [length]: the tokens after the prompt that complete a `gram`-gram seen before in the row."""
    marks, seen, tokens = torch.zeros(len(row), dtype=torch.bool), set(), row.tolist()
    for end in range(gram, len(tokens) + 1):
        key = tuple(tokens[end - gram : end])
        marks[end - 1] = key in seen and end - 1 >= prompt
        seen.add(key)
    return marks


def unlikelihood(log_prob: Tensor, marks: Tensor) -> Tensor:
    """Mean over marked positions of -log(1 - p). log_prob FP32 [B,S], marks bool [B,S]."""
    miss = -torch.log1p(-log_prob.exp().clamp(max=1 - 1e-4))
    return (miss * marks).sum() / marks.sum().clamp_min(1)


class Polisher:
    """Rounds over one decoder; `log` has a row a round."""

    def __init__(self, model: Decoder, windows: Windows, settings: Polish) -> None:
        self.model, self.windows, self.settings, self.log = model, windows, settings, []
        dtype = torch.bfloat16 if model.embed.is_cuda else torch.float32
        self.mode = Mode(quantised=True, sparse=True, dtype=dtype)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Greedy rows int64 [rows, prompt+tokens] padded to whole windows with id 0, and their marks."""
        s, unit = self.settings, self.model.g.window
        prompts = self.windows.next(s.rows)[:, : s.prompt]
        texts = greedy(self.model, prompts.tolist(), s.tokens, self.mode, batch=s.rows)
        rows = torch.cat([prompts.cpu(), torch.tensor(texts)], 1)
        self.share = sum(loops(text[:64]) for text in texts) / len(texts)
        marks = torch.stack([repeated(row, s.prompt, s.gram) for row in rows])
        pad = -rows.shape[1] % unit
        return (torch.nn.functional.pad(x, (0, pad)).to(self.model.embed.device) for x in (rows, marks))

    def step(self, rows: Tensor, marks: Tensor) -> dict[str, float]:
        model, real = self.model, self.windows.next(self.settings.real)
        out = model(rows, self.mode)
        against = unlikelihood(model.token_log_probs(out.hidden[:, :-1], rows[:, 1:]), marks[:, 1:])
        (self.settings.weight * against).backward()
        out = model(real[:, :-1], self.mode)
        loss = -model.token_log_probs(out.hidden, real[:, 1:]).mean()
        (loss + 0.1 * out.index_loss + 0.003 * out.balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"unlikelihood": against.item(), "loss": loss.item()}

    @torch.no_grad()
    def heldout(self) -> dict[str, float]:
        values = {}
        for language, rows in self.windows.heldout.items():
            hidden = self.model(rows[:64, :-1], self.mode).hidden
            values["heldout_" + language] = -self.model.token_log_probs(hidden, rows[:64, 1:]).mean().item()
        return values

    def run(self, seconds: float) -> None:
        start, longest, s = time.time(), 0.0, self.settings
        while time.time() - start + longest < seconds:
            began = time.time()
            for group in self.optimizer.param_groups:
                group["lr"] = s.lr * (1 - (began - start) / seconds)
            rows, marks = self.sample()
            for _ in range(s.steps):
                pick = torch.randperm(s.rows, device=rows.device)[: s.batch]
                facts = self.step(rows[pick], marks[pick])
            row = {
                "round": len(self.log),
                "loop_share": self.share,
                "marked": marks.float().mean().item(),
                **facts,
                **self.heldout(),
            }
            row["seconds"] = time.time() - start
            self.log.append({name: round(value, 4) for name, value in row.items()})
            print(json.dumps(self.log[-1]), flush=True)
            longest = max(longest, time.time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=90)
    arguments = parser.parse_args()
    settings = Polish()
    torch.manual_seed(settings.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = read_checkpoint(arguments.checkpoint).to(device)
    polisher = Polisher(model, Windows(arguments.work / "tokens.npz", 512, device, settings.seed), settings)
    polisher.run(arguments.seconds)
    write_checkpoint(model.g, {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}, arguments.out)
    shutil.copy(arguments.checkpoint / "tokenizer.json", arguments.out)
    log = json.loads((arguments.checkpoint / "train_log.json").read_text(encoding="utf-8"))
    log["polish"] = {"settings": dataclasses.asdict(settings), "log": polisher.log}
    (arguments.out / "train_log.json").write_text(json.dumps(log, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

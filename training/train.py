"""Trains the decoder.

    python -m training.train WORK OUT --steps N [--seconds T] [--resume | --start CHECKPOINT | --compile PHASE]

WORK holds tokens.npz and tokenizer.json. OUT receives state.pt (weights, optimiser, position; written at intervals and
at the end), train_log.json and, at the end, the checkpoint in the official layout. Progress, which drives the learning
rate and the switches below, is the larger of steps done / N and seconds used / T, so a run always ends inside its time;
one that ends by steps is repeatable on the same machine and library versions up to the order of atomic additions.
`--compile` trains nothing: it runs the steps of one phase once, so that the compiler's cache holds what a run will need.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from training.batches import Windows
from training.captured import Captured, choose_device
from training.export import read_checkpoint, write_checkpoint
from training.geometry import Geometry, read_geometry
from training.model import Decoder, Mode
from training.optimizer import Optimizer
from training.own_text import OwnText, unlikelihood
from training.repetition import repeat_ends, repetition_loss


@dataclasses.dataclass
class Recipe:
    """What a run may change. `*_from` are points of progress between 0 and 1.

    `decay` is Muon's; `adam_decay` is AdamW's on the embedding and the head. `passes` and `late_passes` say how often an
    epoch reads each of batches.STREAMS. From `loops_from` on, `loop_rows` of the batch's rows are pseudo-repetitive (see
    repetition), and their loss has the weight `loop_weight`. From `own_from` on, `own_rows` are the decoder's own text (see
    own_text), made anew every `own_every` steps; the weight of their loss starts at `own_weight` and follows the share of
    that text which loops, towards `own_target`.
    """

    batch: int = 128
    length: int = 512
    muon_lr: float = 0.04
    adam_lr: float = 6e-3
    decay: float = 0.1
    adam_decay: float = 0.05
    dropout: float = 0.15
    warmup: int = 100
    cool_from: float = 0.35
    quantised_from: float = 0.65
    passes: str = "2/2/1/1"
    late_from: float = 0.7
    late_passes: str = "2/2/0.6/0.6"
    loops_from: float = 0.75
    loop_rows: int = 25
    loop_weight: float = 1.0
    own_from: float = 0.0
    own_rows: int = 0
    own_texts: int = 128
    own_every: int = 20
    own_weight: float = 0.5
    own_target: float = 0.05
    index_weight: float = 0.1
    balance_weight: float = 0.003
    balance_rate: float = 0.001
    seed: int = 20261130

    def factor(self, step: int, progress: float) -> float:
        """Learning-rate factor: linear warm-up, constant, then linear to nothing."""
        cool = 1.0 if progress < self.cool_from else (1 - progress) / (1 - self.cool_from)
        return min(1.0, (step + 1) / self.warmup) * max(cool, 0.0)


class Batch(NamedTuple):
    """rows int64 [B,S+1]. own and looped FP32 [B,1]: 1 for rows of own text and for pseudo-repetitive ones, which the
    ordinary loss leaves out; marks bool [B,S] belong to the first kind, lag int64 [B,1] and counted bool [B,S] to the second."""

    rows: Tensor
    own: Tensor
    marks: Tensor
    looped: Tensor
    lag: Tensor
    counted: Tensor


def _passes(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split("/")))


class Trainer:
    """One run. `advance` trains until its end and may be called on a resumed object.

    `model` continues from a decoder that is already on the device and compiled.
    """

    def __init__(
        self,
        recipe: Recipe,
        geometry: Geometry,
        tokens: Path,
        device: torch.device,
        *,
        compiled: bool = True,
        model: Decoder | None = None,
    ) -> None:
        if recipe.own_rows + recipe.loop_rows >= recipe.batch:
            raise ValueError(f"{recipe.own_rows} own and {recipe.loop_rows} repetitive rows leave none of {recipe.batch}")
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        self.model = model or Decoder(geometry).to(device)
        for parameter in self.model.parameters():  # the indexer has no gradient before sparse attention starts
            parameter.grad = torch.zeros_like(parameter)
        if compiled and model is None:
            torch._dynamo.config.recompile_limit = 64
            for block in self.model.layers:
                block.compile(dynamic=False)
            self.model.token_log_probs = torch.compile(self.model.token_log_probs, dynamic=False)
        self.optimizer = Optimizer(self.model, recipe.muon_lr, recipe.adam_lr, recipe.decay, recipe.adam_decay)
        self.windows = Windows(tokens, recipe.length, device, recipe.seed, _passes(recipe.passes))
        self.step, self.seconds, self.log = 0, 0.0, []
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._dropout = {training: torch.tensor(recipe.dropout * training, device=device) for training in (True, False)}
        self._balance_rate = torch.zeros((), device=device)
        self._own_weight = torch.tensor(recipe.own_weight, device=device)
        self._late, self._call = None, None
        self._draw = torch.Generator(device=device).manual_seed(recipe.seed)
        own = Mode(quantised=True, sparse=True, dtype=self.dtype)
        self.own = OwnText(self.model, self.windows, own, texts=recipe.own_texts, seed=recipe.seed)
        self._own_age: int | None = None  # steps since the own text was made

    def mode(self, late: bool, training: bool = True) -> Mode:
        rate = self._dropout[training] if self.recipe.dropout else None
        return Mode(quantised=late, sparse=late, dropout=rate, dtype=self.dtype)

    def validate(self, progress: float) -> dict[str, float]:
        """Nats a token on the held-out windows, in training's shape and compiled code (so with autograd left on).

        Its graph fills a third of a large GPU and a captured step holds another; where that is too much the measure is
        left out of the log, not the run lost.
        """
        losses, mode = {}, self.mode(progress >= self.recipe.quantised_from, training=False)
        for language, rows in self.windows.heldout.items():
            batch = rows[: self.recipe.batch]
            try:
                hidden = self.model(batch[:, :-1], mode).hidden
                losses["heldout_" + language] = -self.model.token_log_probs(hidden, batch[:, 1:]).mean().item()
                del hidden
            except torch.OutOfMemoryError as error:
                print(f"held-out {language} not measured: {error}", flush=True)
        return losses

    def _compute(self, *inputs: Tensor) -> dict[str, Tensor]:
        """One optimiser step on the device; `inputs` are those of a Batch."""
        r, model, batch = self.recipe, self.model, Batch(*inputs)
        out = model(batch.rows[:, :-1], self.mode(self._late))
        log_prob = model.token_log_probs(out.hidden, batch.rows[:, 1:])
        ordinary = 1 - batch.own - batch.looped
        plain = -(log_prob * ordinary).sum() / (ordinary.sum() * r.length)
        against = unlikelihood(log_prob, batch.marks).sum() / (batch.own.sum() * r.length).clamp_min(1)
        repeated = repetition_loss(log_prob, batch.lag, batch.counted).sum() / batch.counted.sum().clamp_min(1)
        loss = plain + r.index_weight * out.index_loss + r.balance_weight * out.balance
        loss = loss + self._own_weight * against + r.loop_weight * repeated
        loss.backward()
        facts = {
            "loss": plain,
            "index": out.index_loss,
            "balance": out.balance / model.g.layers,
            "load_min": out.load.min(),
            "load_max": out.load.max(),
            "own": against,
            "loops": repeated,
            "gradient": torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0),
        }
        self.optimizer.step()
        model.zero_grad(set_to_none=False)
        model.balance_experts(out.load, self._balance_rate)
        return {name: value.detach() for name, value in facts.items()}

    def update(self, progress: float) -> dict[str, Tensor]:
        """One step with what is due at this point of the run; returns device scalars, overwritten by the next step."""
        r = self.recipe
        late = progress >= r.quantised_from
        if late != self._late:
            self._late, self._call = late, None  # frees the earlier graph's memory before the next one is made
            self._call = Captured(self._compute, self.device)
        if progress >= r.late_from and self.windows.passes != _passes(r.late_passes):
            self.windows.remix(_passes(r.late_passes))
        batch = self._batch(progress)
        self.optimizer.set_factor(r.factor(self.step, progress))
        self._balance_rate.fill_(r.balance_rate * (1.0 if progress < 0.9 else 0.1))
        return self._call(*batch)

    def _batch(self, progress: float) -> Batch:
        """Rows of own text first, then pseudo-repetitive ones, as far as they are due; then training text."""
        r, device = self.recipe, self.device
        rows, zero = self.windows.next(r.batch), torch.zeros(r.batch, 1, device=device)
        nowhere = torch.zeros(r.batch, r.length, dtype=torch.bool, device=device)
        batch = Batch(rows, zero, nowhere, zero.clone(), zero.long(), nowhere.clone())
        first = 0
        if progress >= r.own_from and r.own_rows:
            if self._own_age is None or self._own_age >= r.own_every:
                self._refresh()
            self._own_age += 1
            first = r.own_rows
            rows[:first], batch.marks[:first] = self.own.take(first)
            batch.own[:first] = 1
        if progress >= r.loops_from and r.loop_rows:
            part = slice(first, first + r.loop_rows)
            rows[part], batch.lag[part], batch.counted[part] = repeat_ends(rows[part], self._draw)
            batch.looped[part] = 1
        return batch

    def _refresh(self) -> None:
        """New own text, and a weight that grows while more of it loops than the target, and falls while less does."""
        first, self._own_age = self._own_age is None, 0
        self.own.refresh()
        if not first:
            error = self.own.share / self.recipe.own_target - 1
            self._own_weight.mul_(math.exp(0.15 * max(-1.0, min(1.0, error)))).clamp_(0.05, 4.0)

    def advance(self, steps: int, seconds: float, save: Path | None = None, every: int = 50) -> None:
        """Trains to `steps` steps or `seconds` seconds of the whole run, whichever comes first."""
        start, saved = time.time() - self.seconds, time.time()
        while True:
            self.seconds = time.time() - start
            progress = max(self.step / steps, self.seconds / seconds)
            if progress >= 1:
                break
            facts = self.update(progress)
            self.step += 1
            if self.step % 10 == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()  # keeps the queue short, so that the clock above means something
            if self.step % every == 0 or self.step in (1, 10):
                tokens = self.step * self.recipe.batch * self.recipe.length
                row: dict[str, Any] = {
                    "step": self.step,
                    "seconds": round(time.time() - start, 1),
                    "progress": round(progress, 4),
                    "tokens": tokens,
                    "epochs": round(self.windows.epochs, 3),
                }
                row.update((name, round(value.item(), 5)) for name, value in facts.items())
                if self._own_age is not None:
                    row |= {"own_loops": round(self.own.share, 4), "own_weight": round(self._own_weight.item(), 4)}
                if self.step % (5 * every) == 0:
                    row.update((name, round(value, 5)) for name, value in self.validate(progress).items())
                self.log.append(row)
                print(json.dumps(row), flush=True)
                if not math.isfinite(row["loss"]):
                    raise FloatingPointError(f"the loss is {row['loss']} at step {self.step}")
            if save and time.time() - saved > 150:
                self.save(save)
                saved = time.time()

    def compile(self, phase: str) -> None:
        """Runs what a phase needs once: 'dense' or 'sparse' steps, or the making of own text."""
        if phase == "own":
            self.own.refresh()
            return
        progress = 0.0 if phase == "dense" else self.recipe.quantised_from
        self.update(progress)
        self.validate(progress)

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "log": self.log,
            "geometry": dataclasses.asdict(self.model.g),
            "recipe": dataclasses.asdict(self.recipe),
            "windows": self.windows.state(),
            "own_weight": self._own_weight,
            "draws": [draw.get_state() for draw in (self._draw, self.own.draw)],
        }
        torch.save(state, path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=False)
        if "draws" not in state:
            raise ValueError(f"{path}: of an earlier state of the recipe; --start goes on from its checkpoint")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.log = state["step"], state["seconds"], state["log"]
        self.windows.restore(state["windows"])
        self._own_weight.copy_(state["own_weight"])
        for draw, saved in zip((self._draw, self.own.draw), state["draws"], strict=True):
            draw.set_state(saved.cpu())


def export(trainer: Trainer, tokenizer: Path, out: Path) -> None:
    """The official layout plus the log."""
    total = write_checkpoint(trainer.model.g, trainer.model.state_dict(), out)
    if tokenizer.exists():
        shutil.copy(tokenizer, out / "tokenizer.json")
    log = {
        "recipe": dataclasses.asdict(trainer.recipe),
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "tokens": trainer.step * trainer.recipe.batch * trainer.recipe.length,
        "log": trainer.log,
    }
    (out / "train_log.json").write_text(json.dumps(log, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"exported {total} bytes of tensors after {trainer.step} steps, {trainer.seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--compile", choices=["dense", "sparse", "own"], help="fill the compiler's cache for a phase and stop")
    parser.add_argument("--start", type=Path, help="begin from an exported checkpoint instead of random weights")
    parser.add_argument("--eager", action="store_true", help="don't compile, which takes minutes; for short runs")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="recipe fields, such as muon_lr=0.01")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    changes = {key: type(getattr(Recipe(), key))(value) for key, value in (item.split("=") for item in arguments.set)}
    device = choose_device()
    arguments.out.mkdir(parents=True, exist_ok=True)
    compiled = device.type == "cuda" and not arguments.eager
    geometry = Geometry()
    if arguments.start:
        geometry = read_geometry(arguments.start)
    try:
        trainer = Trainer(Recipe(**changes), geometry, arguments.work / "tokens.npz", device, compiled=compiled)
        if arguments.start:
            trainer.model.load_state_dict(read_checkpoint(arguments.start, device).state_dict())
        if arguments.resume:  # a run with --start too goes on from its own state
            trainer.load(arguments.out / "state.pt")
    except ValueError as error:
        parser.error(str(error))
    if arguments.compile:
        trainer.compile(arguments.compile)
        return
    trainer.advance(arguments.steps, arguments.seconds, arguments.out / "state.pt")
    trainer.save(arguments.out / "state.pt")
    export(trainer, arguments.work / "tokenizer.json", arguments.out)


if __name__ == "__main__":
    main()

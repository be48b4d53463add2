"""Trains the decoder.

    python -m training.train WORK OUT --steps N [--seconds T] [--resume | --start CHECKPOINT]

WORK holds tokens.npz and tokenizer.json. OUT receives state.pt (weights, optimiser, position; written at intervals and
at the end), train_log.json and, at the end, the checkpoint in the official layout. Progress, which drives the learning
rate and the switches below, is the larger of steps done / N and seconds used / T, so a run always ends inside its time;
one that ends by steps is repeatable on the same machine and library versions up to the order of atomic additions.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from training.batches import Windows, loop_loss, make_loops
from training.export import read_checkpoint, write_checkpoint
from training.geometry import Geometry, read_geometry
from training.model import Decoder, Mode
from training.optimizer import Optimizer


@dataclasses.dataclass
class Recipe:
    """What a run may change. `*_from` are points of progress between 0 and 1."""

    batch: int = 128
    length: int = 512
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    decay: float = 0.05
    dropout: float = 0.1
    warmup: int = 100
    cool_from: float = 0.4
    quantised_from: float = 0.6
    loops_from: float = 0.8
    loop_share: float = 0.125
    loop_weight: float = 0.5
    index_weight: float = 0.1
    balance_weight: float = 0.003
    balance_rate: float = 0.001
    seed: int = 20261130

    def factor(self, step: int, progress: float) -> float:
        """Learning-rate factor: linear warm-up, constant, then linear to 2%."""
        cool = 1.0 if progress < self.cool_from else (1 - progress) / (1 - self.cool_from)
        return min(1.0, (step + 1) / self.warmup) * max(cool, 0.02)


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
        self.optimizer = Optimizer(self.model, recipe.muon_lr, recipe.adam_lr, recipe.decay)
        self.windows = Windows(tokens, recipe.length, device, recipe.seed)
        self.draw = torch.Generator(device=device).manual_seed(recipe.seed)
        self.step, self.seconds, self.log = 0, 0.0, []
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32

    def mode(self, progress: float, training: bool = True) -> Mode:
        late = progress >= self.recipe.quantised_from
        rate = torch.tensor(self.recipe.dropout if training else 0.0, device=self.device) if self.recipe.dropout else None
        return Mode(quantised=late, sparse=late, dropout=rate, dtype=self.dtype)

    def validate(self, progress: float) -> dict[str, float]:
        """Nats a token on the held-out windows, in training's shape and compiled code (so with autograd left on)."""
        losses = {}
        for language, rows in self.windows.heldout.items():
            batch = rows[: self.recipe.batch]
            hidden = self.model(batch[:, :-1], self.mode(progress, training=False)).hidden
            losses["heldout_" + language] = -self.model.token_log_probs(hidden, batch[:, 1:]).mean().item()
        return losses

    def update(self, progress: float) -> dict[str, torch.Tensor]:
        """One optimiser step; returns device scalars for the log."""
        r, model = self.recipe, self.model
        rows = self.windows.next(r.batch)
        loops = None
        if progress >= r.loops_from and (count := int(r.loop_share * r.batch)):
            loops = make_loops(rows[:count], self.draw)
            rows = torch.cat([loops.rows, rows[count:]])
        out = model(rows[:, :-1], self.mode(progress))
        log_prob = model.token_log_probs(out.hidden, rows[:, 1:])
        plain = log_prob if loops is None else log_prob[len(loops.rows) :]
        loss = -plain.mean() + r.index_weight * out.index_loss + r.balance_weight * out.balance
        facts = {
            "loss": -plain.mean(),
            "index": out.index_loss,
            "balance": out.balance / model.g.layers,
            "load_min": out.load.min(),
            "load_max": out.load.max(),
        }
        if loops is not None:
            facts["loops"] = loop_loss(log_prob[: len(loops.rows)], loops)
            loss = loss + r.loop_weight * facts["loops"]
        loss.backward()
        facts["gradient"] = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimizer.step(r.factor(self.step, progress))
        model.zero_grad(set_to_none=False)
        model.balance_experts(out.load, r.balance_rate * (1.0 if progress < 0.9 else 0.1))
        return {name: value.detach() for name, value in facts.items()}

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
                if self.step % (5 * every) == 0:
                    row.update((name, round(value, 5)) for name, value in self.validate(progress).items())
                self.log.append(row)
                print(json.dumps(row), flush=True)
                if not math.isfinite(row["loss"]):
                    raise FloatingPointError(f"the loss is {row['loss']} at step {self.step}")
            if save and time.time() - saved > 150:
                self.save(save)
                saved = time.time()

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "log": self.log,
            "geometry": dataclasses.asdict(self.model.g),
            "recipe": dataclasses.asdict(self.recipe),
            "windows": (self.windows._queue, self.windows.epochs),
        }
        torch.save(state, path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=False)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.log = state["step"], state["seconds"], state["log"]
        self.windows._queue, self.windows.epochs = state["windows"]
        self.windows._per_epoch = max(len(self.windows._queue), 1)


def export(trainer: Trainer, tokenizer: Path, out: Path) -> None:
    """The official layout plus the log."""
    state = {name: tensor.detach().cpu() for name, tensor in trainer.model.state_dict().items()}
    total = write_checkpoint(trainer.model.g, state, out)
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
    parser.add_argument("--start", type=Path, help="begin from an exported checkpoint instead of random weights")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="recipe fields, such as muon_lr=0.01")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    changes = {key: type(getattr(Recipe(), key))(value) for key, value in (item.split("=") for item in arguments.set)}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arguments.out.mkdir(parents=True, exist_ok=True)
    geometry = Geometry()
    if arguments.start:
        geometry = read_geometry(arguments.start)
    trainer = Trainer(Recipe(**changes), geometry, arguments.work / "tokens.npz", device, compiled=device.type == "cuda")
    if arguments.start:
        trainer.model.load_state_dict(read_checkpoint(arguments.start).state_dict())
    if arguments.resume:
        trainer.load(arguments.out / "state.pt")
    trainer.advance(arguments.steps, arguments.seconds, arguments.out / "state.pt")
    trainer.save(arguments.out / "state.pt")
    export(trainer, arguments.work / "tokenizer.json", arguments.out)


if __name__ == "__main__":
    main()

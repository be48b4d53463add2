"""Short runs of several recipes in one process, so that they share compiled code; prints one table.

    python -m training.compare WORK --seconds 45 --out table.json NAME:KEY=VALUE,KEY=VALUE ...

Every run sees the whole schedule (warm-up, quantisation, pseudo-repetitive rows, cooling) in its time and is then measured:
held-out loss in nats a token per language (quantised, sparse), tokens a second before and after quantisation starts,
and the share of the prompts in WORK/prompts.tsv whose greedy continuation loops.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.captured import choose_device
from training.evaluate import bits_per_byte, read_prompts
from training.generate import greedy, loops
from training.geometry import Geometry
from training.model import Mode
from training.train import Recipe, Trainer


def parse_variant(text: str) -> tuple[str, Recipe]:
    """'name:muon_lr=0.01,batch=64' -> its recipe."""
    name, _, changes = text.partition(":")
    fields = {key: type(getattr(Recipe(), key))(value) for key, value in (item.split("=") for item in changes.split(",") if item)}
    return name, Recipe(**fields)


def measure(trainer: Trainer, work: Path) -> dict[str, object]:
    """Held-out loss and loops; eager, because no shape here is a training shape."""
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    documents = [json.loads(line) for line in (work / "heldout.jsonl").read_text(encoding="utf-8").splitlines()]
    mode = Mode(quantised=True, sparse=True, dtype=trainer.dtype)
    with torch.compiler.set_stance("force_eager"):
        held = bits_per_byte(trainer.model, tokenizer, documents, mode, batch=32)
        prompts = [tokenizer.encode(p["text"]).ids for p in read_prompts(work / "prompts.tsv")]
        texts = greedy(trainer.model, prompts, 64, mode)
    for ids, text in list(zip(prompts, texts, strict=True))[:50:7]:
        print("   ", repr(tokenizer.decode(ids + text)), flush=True)
    return {**{key: value["bits_per_byte"] for key, value in held.items()}, "loops": sum(map(loops, texts)) / len(texts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    device, table, model, initial = choose_device(), {}, None, {}
    for name, recipe in map(parse_variant, arguments.variants):
        started = time.time()
        trainer = Trainer(recipe, Geometry(), arguments.work / "tokens.npz", device, model=model)
        if model is None:  # one module for all runs: a second one might compile anew
            model, initial = trainer.model, {n: t.clone() for n, t in trainer.model.state_dict().items()}
        model.load_state_dict(initial)
        for progress in (0.0, recipe.quantised_from):  # compile outside the measured time
            trainer.update(progress)
            torch.cuda.synchronize()
            print(
                name,
                "ready at",
                round(time.time() - started, 1),
                "s, GB",
                round(torch.cuda.max_memory_allocated() / 2**30, 1),
                flush=True,
            )
        trainer.advance(10**9, arguments.seconds, every=40)
        speed = recipe.batch * recipe.length
        early, late = (
            [row for row in trainer.log if (row["progress"] < recipe.quantised_from) == first and row["step"] > 10]
            for first in (True, False)
        )
        rates = [
            round(speed * (part[-1]["step"] - part[0]["step"]) / (part[-1]["seconds"] - part[0]["seconds"]))
            if len(part) > 1
            else 0
            for part in (early, late)
        ]
        table[name] = {
            "steps": trainer.step,
            "tokens_per_second": rates,
            "train": trainer.log[-1]["loss"],
            **measure(trainer, arguments.work),
            "wall": round(time.time() - started, 1),
        }
        print(name, json.dumps(table[name]), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for name, row in table.items():
        print(f"{name:20}", json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

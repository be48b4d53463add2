"""Gives tokens that the training text hardly holds one small probability, wherever they might follow.

    python -m training.silence CHECKPOINT WORK OUT [--fewer 20]

A byte that no text holds, or the beginning of a word that always goes on, is never a target, so nothing holds its score
down where text is unlike training text; unlikelihood of what repeats moves probability to just such tokens, and greedy
text is then full of them. Here their row of the head, the same for all, is fitted by least squares on windows of the
training text, so that their score is the logarithm of the sum of all exponentials less 15 nats (13 of 43 million tokens).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from torch import Tensor

from training.batches import Windows
from training.export import read_checkpoint, write_checkpoint
from training.model import INFERENCE, Decoder

NATS = 15.0
WINDOWS = 48


def rare_tokens(windows: Windows, vocabulary: int, fewer: int) -> Tensor:
    """int64 [n]: tokens that stand fewer than so many times in the training streams."""
    return (windows.tokens.bincount(minlength=vocabulary) < fewer).nonzero()[:, 0]


@torch.no_grad()
def silence(model: Decoder, rare: Tensor, windows: Tensor) -> tuple[float, float]:
    """Sets the head's rows of `rare`, in place. windows: int64 [W,S]. Returns the fit's mean and standard deviation, in nats."""
    hidden = torch.cat([model(row[None], INFERENCE).hidden[0] for row in windows])
    total = model.logits(hidden).logsumexp(-1)
    row = torch.linalg.lstsq(hidden.double(), (total - NATS).double()[:, None]).solution[:, 0]
    model.head[rare] = row.to(model.head.dtype)
    left = hidden @ model.head[rare[0]].to(torch.bfloat16).float() - total
    return left.mean().item(), left.std().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fewer", type=int, default=20)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = read_checkpoint(arguments.checkpoint, device)
    windows = Windows(arguments.work / "tokens.npz", 512, device, 1, (1, 1, 0.2, 0.2))
    rare = rare_tokens(windows, model.g.vocab, arguments.fewer)
    if not len(rare):
        parser.error(f"--fewer {arguments.fewer}: every token stands more often")
    mean, deviation = silence(model, rare, windows.next(WINDOWS)[:, :-1])
    write_checkpoint(model.g, model.state_dict(), arguments.out)
    shutil.copy(arguments.checkpoint / "tokenizer.json", arguments.out)
    print(f"{len(rare)} tokens at {mean:.2f} nats, standard deviation {deviation:.2f}")


if __name__ == "__main__":
    main()

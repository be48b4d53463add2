"""Averages checkpoints that continue one another, and softens what they predict.

    python -m training.average OUT CHECKPOINT CHECKPOINT... [--sharpness S]

Weights are averaged as they are read back, and quantised again. `--sharpness` multiplies the final norm, so every logit:
a decoder that has read its text many times is too sure of itself on other text, and greedy choices don't change with it.
Choose it on held-out documents that are not those of the reported measure.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch

from training.export import Tensors, read_checkpoint, write_checkpoint


def average(states: list[Tensors], sharpness: float) -> Tensors:
    """Equal shares of every weight; expert ids of the hashed layers must be the same in all, else ValueError."""
    mean: Tensors = {}
    for name, first in states[0].items():
        if first.is_floating_point():
            mean[name] = torch.stack([state[name] for state in states]).mean(0)
        elif all(torch.equal(first, state[name]) for state in states):
            mean[name] = first
        else:
            raise ValueError(f"{name} differs: these checkpoints do not continue one another")
    mean["norm"] = mean["norm"] * sharpness
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--sharpness", type=float, default=1.0)
    arguments = parser.parse_args()
    models = [read_checkpoint(directory) for directory in arguments.checkpoints]
    total = write_checkpoint(models[0].g, average([m.state_dict() for m in models], arguments.sharpness), arguments.out)
    shutil.copy(arguments.checkpoints[0] / "tokenizer.json", arguments.out)
    print(f"{total} bytes of tensors in {arguments.out}")


if __name__ == "__main__":
    main()

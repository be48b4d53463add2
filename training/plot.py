"""Draws the loss curves of a run.

python -m training.plot train_log.json docs/checkpoint/loss.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(log: dict, path: Path) -> None:
    """Training loss (smoothed over five log rows) and held-out loss of both languages, over tokens seen.

    Continuations that the log holds follow the run, one behind the other, whatever they started from.
    """
    rows, recipe = [row for row in log["log"] if row["step"] >= 50], log["recipe"]
    run, begins = len(rows), {}
    for name, later in log.get("continuations", {}).items():
        begins[name] = rows[-1]["tokens"]
        rows += [row | {"tokens": row["tokens"] + begins[name]} for row in later["log"]]
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=110)
    tokens, loss = [row["tokens"] / 1e6 for row in rows], [row["loss"] for row in rows]
    smooth = [sum(loss[max(0, i - 4) : i + 1]) / len(loss[max(0, i - 4) : i + 1]) for i in range(len(loss))]
    axes.plot(tokens, smooth, color="0.6", label="training (all sources, with dropout)")
    for key, label, colour in (("heldout_en", "held out, English", "tab:blue"), ("heldout_zh", "held out, Chinese", "tab:red")):
        points = [(row["tokens"] / 1e6, row[key]) for row in rows if key in row]
        axes.plot(*zip(*points, strict=False), marker="o", markersize=3, color=colour, label=label)
    phases = {
        "quantised_from": "quantised, sparse",
        "loops_from": "pseudo-repetition",
        "late_from": "other mix",
        "own_from": "own text",
    }
    for key, label in phases.items():
        if key not in recipe:  # a log of another state of the recipe
            continue
        begins[label] = next((row["tokens"] for row in rows[:run] if row["progress"] >= recipe[key]), None)
    for label, start in begins.items():
        if start is not None:
            axes.axvline(start / 1e6, color="0.8", linestyle="--")
            axes.text(start / 1e6, 5.45, " " + label, rotation=90, va="top", ha="right", fontsize=8, color="0.4")
    axes.set(xlabel="tokens seen, millions", ylabel="nats a token", ylim=(2.7, 5.5))
    axes.legend(frameon=False)
    axes.grid(alpha=0.2)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.log.read_text(encoding="utf-8")), arguments.out)


if __name__ == "__main__":
    main()

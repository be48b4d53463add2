"""Draws the loss curves of a run, and of those that went on from it, one behind the other.

python -m training.plot docs/checkpoint/loss.png RUN/train_log.json docs/checkpoint/continuation.json ...
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

PHASES = {
    "quantised_from": ("quantised, sparse", None),
    "loops_from": ("pseudo-repetition", "loop_rows"),
    "late_from": ("other mix", None),
    "own_from": ("own text", "own_rows"),
}
"""Field of a recipe -> label, and the field that is 0 where there is no such phase."""


def phases(recipe: dict) -> dict[str, float]:
    """Label -> progress at which it begins; a log of another state of the recipe may lack fields."""
    return {label: recipe[key] for key, (label, rows) in PHASES.items() if key in recipe and recipe.get(rows, 1)}


def draw(run: dict, later: dict[str, dict], path: Path) -> None:
    """Training loss (smoothed over five log rows) and held-out loss of both languages, over tokens seen.

    later: label -> log of a run that follows, whatever it started from.
    """
    rows, begins = [row for row in run["log"] if row["step"] >= 50], {}
    for label, start in phases(run["recipe"]).items():
        begins[label] = next((row["tokens"] for row in rows if row["progress"] >= start), None)
    for label, log in later.items():
        begins[label] = rows[-1]["tokens"]
        rows += [row | {"tokens": row["tokens"] + begins[label]} for row in log["log"]]
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=110)
    tokens, loss = [row["tokens"] / 1e6 for row in rows], [row["loss"] for row in rows]
    smooth = [sum(loss[max(0, i - 4) : i + 1]) / len(loss[max(0, i - 4) : i + 1]) for i in range(len(loss))]
    axes.plot(tokens, smooth, color="0.6", label="training (all sources, with dropout)")
    for key, label, colour in (("heldout_en", "held out, English", "tab:blue"), ("heldout_zh", "held out, Chinese", "tab:red")):
        points = [(row["tokens"] / 1e6, row[key]) for row in rows if key in row]
        axes.plot(*zip(*points, strict=False), marker="o", markersize=3, color=colour, label=label)
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
    parser.add_argument("out", type=Path)
    parser.add_argument("run", type=Path, help="its train_log.json")
    parser.add_argument("later", type=Path, nargs="*", help="logs of what went on from it, labelled by name or folder")
    arguments = parser.parse_args()
    run, *later = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.run, *arguments.later))
    names = [path.parent.name if path.name == "train_log.json" else path.stem for path in arguments.later]
    draw(run, {name.replace("_", " "): log for name, log in zip(names, later, strict=True)}, arguments.out)


if __name__ == "__main__":
    main()

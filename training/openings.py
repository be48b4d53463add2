"""Beginnings of sentences in held-out narrative documents, as a catalogue of prompts.

    python -m training.openings HELDOUT.jsonl OUT.tsv [--each 150]

Of 50 prompts, 23 or 30 that loop may be the same habit; some hundreds tell two checkpoints apart.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")


def opening(sentence: str, language: str, draw: random.Random) -> str | None:
    """The first 3 to 8 words, or 5 to 12 Chinese characters, of a sentence that goes on well past them."""
    if language == "en":
        words, count = sentence.split(), draw.randint(3, 8)
        return " ".join(words[:count]) if len(words) >= count + 4 and "A" <= sentence[0] <= "Z" else None
    count = draw.randint(5, 12)
    return sentence[:count] if len(sentence) >= count + 6 and "一" <= sentence[0] <= "龥" else None


def openings(documents: Iterable[dict[str, Any]], each: int, seed: int = 5) -> Iterator[tuple[str, str]]:
    """(language, text): `each` different openings a language; ValueError if the documents hold fewer."""
    draw, found = random.Random(seed), {"en": set(), "zh": set()}
    for document in documents:
        if document["tier"] == "main":
            language = document["language"]
            texts = (opening(sentence, language, draw) for sentence in ENDS.split(document["text"]) if sentence)
            found[language].update(filter(None, texts))
    for language, texts in found.items():
        yield from ((language, text) for text in draw.sample(sorted(texts), each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heldout", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--each", type=int, default=150)
    arguments = parser.parse_args()
    documents = map(json.loads, arguments.heldout.read_text(encoding="utf-8").splitlines())
    with arguments.out.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, delimiter="\t", lineterminator="\n")
        table.writerow(("prompt_id", "language", "kind", "text"))
        for number, (language, text) in enumerate(openings(documents, arguments.each)):
            table.writerow((f"{language}-{number:03}", language, "opening", text))


if __name__ == "__main__":
    main()

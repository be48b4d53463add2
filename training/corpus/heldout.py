"""Which paragraphs are never trained on.

Two groups. The fixed list `heldout_v1.txt.gz` fingerprints 180 documents of the narrative sources, so that later recipes
can be measured on the same text whatever their sources or cutting rules are. From the other sources whole documents are
drawn by their hash.

Fingerprints are 40-bit BLAKE2b hashes over letters and digits only, so that a change in punctuation rules cannot leak
held-out text: one a paragraph, and one for every fourth n-gram (six English words, ten Chinese characters) by hash.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

LIST = Path(__file__).parent / "heldout_v1.txt.gz"
ONE_IN = 250  # drawn documents of the newer sources
# Narrative sources added since the list was fixed: what it holds of them is dropped, so that the held-out set stays as it is.
LATER = frozenset({"crawl", "essays", "wesnoth-taiwan", "cataclysm-taiwan", "small-games"})


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def _grams(paragraph: str, language: str) -> Iterator[str]:
    if language == "en":
        words = re.findall(r"[a-z0-9]+", paragraph.lower())
        yield from (" ".join(words[i : i + 6]) for i in range(len(words) - 5))
    else:
        letters = re.sub(r"\W+", "", paragraph)
        yield from (letters[i : i + 10] for i in range(len(letters) - 9))


def _sampled(paragraph: str, language: str) -> list[str]:
    return [h for h in map(_hash, _grams(paragraph, language)) if int(h[-1], 16) < 4]


def _whole(paragraph: str) -> str:
    return _hash("=" + re.sub(r"\W+", "", paragraph.lower()))


def write_list(documents: Iterable[tuple[str, str]]) -> None:
    """Fingerprints (language, text) documents into the list; run once, when the list was fixed."""
    marks: set[str] = set()
    for language, text in documents:
        for paragraph in text.split("\n"):
            marks.update([_whole(paragraph)] if len(paragraph) > 4 else [], _sampled(paragraph, language))
    LIST.write_bytes(gzip.compress("\n".join(sorted(marks)).encode(), mtime=0))


class HeldOut:
    """Sorts paragraphs and documents into training, held out, or neither."""

    def __init__(self) -> None:
        self._marks = set(gzip.decompress(LIST.read_bytes()).decode().split())

    def paragraph(self, paragraph: str, language: str, source: str = "") -> str:
        """'heldout' if most of it is listed, 'drop' if a part is or the source is one of LATER, else 'train'."""
        listed = "drop" if source in LATER else "heldout"
        if _whole(paragraph) in self._marks:
            return listed
        grams = _sampled(paragraph, language)
        hits = sum(gram in self._marks for gram in grams)
        return "train" if not hits else listed if 2 * hits > len(grams) else "drop"

    @staticmethod
    def drawn(document: list[str]) -> bool:
        """True for one document in `ONE_IN`, by the hash of its first paragraph."""
        return int(_hash(document[0]), 16) % ONE_IN == 0

"""Builds the corpus: fetch, read, clean, drop repeats, set the held-out documents apart, write the manifest.

    python -m training.corpus.build WORK

Writes WORK/corpus.jsonl.xz, one document a line: {"language", "tier", "source", "split", "text"}, and
WORK/corpus_manifest.json with every package (version, file, SHA-256, licence) and the size of every source.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from training.corpus import bilingual, chinese, english
from training.corpus.fetch import Shelf
from training.corpus.heldout import HeldOut


def sources(shelf: Shelf) -> Iterator[tuple[str, str, str, list[str]]]:
    """(language, tier, source, document). 'main' is narrative and everyday text, 'extra' the rest."""
    for module, language in ((english, "en"), (chinese, "zh")):
        for tier, table in (("main", module.MAIN), ("extra", module.EXTRA)):
            for name, read in table.items():
                yield from ((language, tier, name, document) for document in read(shelf))
    for tier, table in (("main", bilingual.MAIN), ("extra", bilingual.EXTRA)):
        for name, read in table.items():
            yield from ((language, tier, name, document) for language, document in bilingual.documents(read(shelf)))


class Repeats:
    """Drops paragraphs seen before; in the main tier only documents that mostly repeat, so that stories stay whole."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def filter(self, document: list[str], tier: str) -> list[str]:
        marks = [hashlib.blake2b(p.encode(), digest_size=10).digest() for p in document]
        old = [mark in self._seen for mark in marks]
        self._seen.update(marks)
        if tier == "main":
            repeated = sum(len(p) for p, was in zip(document, old, strict=True) if was)
            return [] if 2 * repeated > sum(map(len, document)) else document
        return [p for p, was in zip(document, old, strict=True) if not was]


def build(work: Path) -> None:
    shelf, repeats, heldout = Shelf(work), Repeats(), HeldOut()
    counts: dict[str, dict[str, int]] = defaultdict(
        lambda: {"documents": 0, "bytes": 0, "heldout_documents": 0, "heldout_bytes": 0}
    )
    with lzma.open(work / "corpus.jsonl.xz", "wt", preset=3, encoding="utf-8") as out:
        for language, tier, source, document in sources(shelf):
            kept = repeats.filter([p for p in document if p], tier)
            drawn = bool(kept) and tier == "extra" and heldout.drawn(kept)
            marked = [
                ("heldout-new" if drawn and mark == "train" else mark, p)
                for mark, p in ((heldout.paragraph(p, language, source), p) for p in kept)
            ]
            for split, run in groupby(marked, key=lambda item: item[0]):
                text = "\n".join(p for _, p in run)
                if split == "drop" or len(text) < (8 if language == "zh" else 20):
                    continue
                out.write(
                    json.dumps(
                        {"language": language, "tier": tier, "source": source, "split": split, "text": text}, ensure_ascii=False
                    )
                    + "\n"
                )
                count, prefix = counts[f"{language}.{source}"], "" if split == "train" else "heldout_"
                count[prefix + "documents"] += 1
                count[prefix + "bytes"] += len(text.encode())
    packages = {
        a.package.name: {
            "version": a.package.version,
            "kind": a.package.kind,
            "licence": a.package.licence,
            "file": a.path.name,
            "sha256": a.sha256(),
        }
        for a in shelf
    }
    manifest = {"packages": packages, "sources": dict(sorted(counts.items()))}
    (work / "corpus_manifest.json").write_text(
        json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    for name, count in sorted(counts.items()):
        trained = f"{count['documents']:7} documents {count['bytes'] / 1e6:7.2f} MB"
        print(f"{name:24} {trained}, held out {count['heldout_bytes'] / 1e3:7.1f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    build(parser.parse_args().work)


if __name__ == "__main__":
    main()

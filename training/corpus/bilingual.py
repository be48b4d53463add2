"""Sources that hold both languages: game campaigns, item texts, graded sentences and program messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from training.corpus import readers
from training.corpus.clean import chinese, english, is_chinese, is_english, is_message, pieces
from training.corpus.fetch import Shelf

Pairs = Iterator[tuple[list[str], list[str]]]


def campaigns(shelf: Shelf) -> Pairs:
    """Dialogue and narration of the Wesnoth campaigns, in script order; English and Chinese keep their own order."""
    archives = [a for a in shelf if a.package.name.startswith("wesnoth")]
    messages: dict[str, str] = {}
    for archive in archives:
        for path in archive.files("**/zh_CN/**/*.mo"):
            if path.name not in ("wesnoth-editor.mo", "wesnoth-anl.mo"):
                messages.update(readers.catalog(path))
    seen: set[str] = set()
    for archive in archives:
        for path in archive.files("**/data/**/*.cfg"):
            if not re.search(r"/campaigns/|/scenarios/|/units/|/help", str(path)):
                continue
            here: tuple[list[str], list[str]] = ([], [])
            for match in re.finditer(r'_\s*"((?:[^"]|"")*)"', readers.text(path)):
                key = match[1].replace('""', '"')
                if key in seen:
                    continue
                seen.add(key)

                def untagged(s):
                    return re.sub(r"</?[a-zA-Z][^>]*>|<\w+=[^>]*>", "", re.sub(r"^[a-z0-9_ +.,:\-]{2,40}\^", "", s))

                source, target = english(untagged(key)), chinese(untagged(messages.get(key, "")))
                if is_english(source, 12) and is_message(source):
                    here[0].append(source)
                if is_chinese(target, 4) and is_message(target):
                    here[1].append(target)
            yield here


def cataclysm(shelf: Shelf) -> Pairs:
    """Item, monster and dialogue texts; each message is its own document."""
    tag = re.compile(r"</?(?:color|good|bad|info|neutral|header|bold)[^>]*>")
    for path in shelf["cataclysm-dda-data"].files("**/zh_CN/**/cataclysm-dda.mo"):
        for key, value in sorted(readers.catalog(path).items()):
            source, target = english(tag.sub("", key)), chinese(tag.sub("", value))
            yield (
                [source] if is_english(source, 40) and is_message(source) else [],
                [target] if is_chinese(target, 10, 0.6) and is_message(target) else [],
            )


def graded_sentences(shelf: Shelf) -> Pairs:
    groups: dict[tuple, tuple[list[str], list[str]]] = {}
    for _, content in shelf["hsk-sentences-audio"].members(lambda n: n.endswith("data/sentences.json")):
        for row in json.loads(content):
            group = groups.setdefault((row["hsk_level"], row["topic"]), ([], []))
            group[0].append(english(row["translation"]["en"]))
            group[1].append(chinese(row["chinese"]))
    yield from groups.values()


def messages(shelf: Shelf) -> Pairs:
    """Sentences from the message catalogues of programs and games."""
    for package in (
        "freeciv-data",
        "widelands-data",
        "warzone2100-data",
        "gcompris-qt-data",
        "unknown-horizons",
        "kstars-data",
        "krita-l10n",
        "gramps",
        "digikam-data",
        "stellarium-data",
    ):
        for path in shelf[package].files("**/zh_CN/**/*.mo"):
            kept: tuple[list[str], list[str]] = ([], [])
            for key, value in readers.catalog(path).items():
                source, target = english(re.sub(r"<[^>]+>", "", key)), chinese(re.sub(r"<[^>]+>", "", value))
                if is_english(source, 50) and is_message(source) and is_chinese(target, 12, 0.6) and is_message(target):
                    kept[0].append(source)
                    kept[1].append(target)
            yield kept


def documents(pairs: Pairs) -> Iterator[tuple[str, list[str]]]:
    """(language, document), cut to the usual sizes."""
    for source, target in pairs:
        yield from (("en", d) for d in pieces(source, 2500))
        yield from (("zh", d) for d in pieces(target, 800))


MAIN = {"wesnoth": campaigns, "cataclysm": cataclysm, "hsk": graded_sentences}
EXTRA = {"messages": messages}

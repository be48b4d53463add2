"""Text normalisation shared by all sources: one paragraph a line, NFC, no control characters, plain punctuation."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser

_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0002ffff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202e\ufeff\ufffd\xad]")
_ASCII_QUOTES = str.maketrans("“”‘’`´", "\"\"''''")
_CJK_QUOTES = str.maketrans("「」『』﹁﹂", "“”‘’“”")
_MARKUP = re.compile(r"%[sdif]|%\d|\$\w|[<>{}\\|]|https?:|&\w+;|\b\w+_\w+\b|==")


def han(text: str) -> int:
    """Number of Han characters."""
    return len(_HAN.findall(text))


def _base(text: str) -> str:
    text = unicodedata.normalize("NFC", text).replace("\u00a0", " ").replace("\u3000", " ")
    return re.sub(r"\s+", " ", _CONTROL.sub("", re.sub(r"[\r\n\t\x0b\x0c]", " ", text))).strip()


def english(text: str) -> str:
    """One English paragraph: ASCII quotes, em dashes for runs of hyphens, no emphasis marks."""
    text = _base(text).translate(_ASCII_QUOTES)
    text = re.sub(r"(?<!\w)[_*]([^_*]{1,200})[_*](?!\w)", r"\1", text)
    return re.sub(r"\s*-{2,}\s*", "—", text)


def chinese(text: str) -> str:
    """One Chinese paragraph: curly quotes, full-width marks between Han characters, no spaces between them."""
    text = _base(text).translate(_CJK_QUOTES)
    text = re.sub(r"(?<=[\u3400-\u9fff”’》」），。！？；：、]) +(?=[\u3400-\u9fff“‘《「（])", "", text)
    text = re.sub(r"(?<=[\u3400-\u9fff]),(?=\s*[\u3400-\u9fff])", "，", text)
    text = re.sub(r"(?<=[\u3400-\u9fff])\?", "？", re.sub(r"(?<=[\u3400-\u9fff])!", "！", text))
    return re.sub(r"([，。！？；：、]) +", r"\1", text)


def is_english(text: str, least: int = 25) -> bool:
    """Prose rather than a table, a list of names or code."""
    letters = sum(c.isalpha() and c.isascii() for c in text)
    return len(text) >= least and text.count(" ") >= 2 and letters > 0.6 * len(text) and not han(text)


def is_chinese(text: str, least: int = 8, share: float = 0.5) -> bool:
    """At least `least` Han characters that make up `share` of the visible characters."""
    count = han(text)
    return count >= least and count >= share * max(1, len(text.replace(" ", "")))


def is_message(text: str) -> bool:
    """A translatable message that reads as a sentence: ends like one and holds no markup or placeholder."""
    return bool(text) and text[-1] in ".!?\"'…。！？”’" and not _MARKUP.search(text)


def unwrap(text: str) -> Iterator[str]:
    """Paragraphs of hard-wrapped plain text, which blank lines separate."""
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\ufeff", "")):
        if block := re.sub(r"\s*\n\s*", " ", block).strip():
            yield block


def strip_tags(text: str) -> str:
    """Markup removed, entities resolved, spaces collapsed."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


_BREAKING = frozenset("p li dd dt td th h1 h2 h3 h4 h5 div title section table tr ul ol dl br note item para".split())  # noqa: SIM905
_SKIPPED = frozenset({"script", "style", "pre", "nav", "header", "footer", "head", "code", "screen"})


class _Blocks(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self._text: list[str] = []
        self._skipping = 0

    def flush(self) -> None:
        if text := re.sub(r"\s+", " ", "".join(self._text)).strip():
            self.blocks.append(text)
        self._text = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self._skipping += tag in _SKIPPED
        if tag in _BREAKING:
            self.flush()

    def handle_endtag(self, tag: str) -> None:
        self._skipping = max(0, self._skipping - (tag in _SKIPPED))
        if tag in _BREAKING:
            self.flush()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data)


def html_blocks(markup: str) -> list[str]:
    """Text of the block elements of a page (HTML, or Mallard help), without code and navigation."""
    parser = _Blocks()
    parser.feed(markup)
    parser.flush()
    return parser.blocks


def pieces(paragraphs: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cuts a long text into documents of about `size` characters, on paragraph bounds."""
    document: list[str] = []
    for paragraph in paragraphs:
        if paragraph:
            document.append(paragraph)
            if sum(map(len, document)) >= size:
                yield document
                document = []
    if document:
        yield document

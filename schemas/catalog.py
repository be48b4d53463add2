"""Prompt catalogs: a TSV file of raw-text prompts, checked before any of it reaches a model (docs/formats.md, "Prompt catalog").

A prompt is its UTF-8 bytes. No Unicode normalisation, no trimming: other bytes are another prompt, and an ID that a run has
bound to some bytes can never mean others.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from schemas.errors import InvalidInput
from schemas.job import LANGUAGE, Composition, Kind
from schemas.text_file import BIDI, decode_text, read_text, shown

HEADER = ("prompt_id", "language", "kind", "text")
MAX_BYTES = 16 << 20
MAX_PROMPTS = 100_000
MAX_TEXT_BYTES = 64 << 10

PROMPT_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
LANGUAGE_TAG = re.compile(LANGUAGE)
KINDS = get_args(Kind)
ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Prompt:
    """One prompt; `text` is what the tokenizer gets, escapes resolved."""

    prompt_id: str
    language: str
    kind: str
    text: str

    @cached_property
    def sha256(self) -> str:
        """SHA-256 (hex) of the text's UTF-8 bytes, which binds the ID."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Catalog:
    """The prompts of a file, in its order."""

    file: str
    prompts: tuple[Prompt, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the prompts in order: the same for other line ends or another spelling of the escapes."""
        rows = (f"{one.prompt_id}\t{one.language}\t{one.kind}\t{one.sha256}\n" for one in self.prompts)
        return hashlib.sha256("".join(rows).encode()).hexdigest()

    @property
    def bindings(self) -> dict[str, str]:
        """Prompt ID -> SHA-256 of its text, as a run records it."""
        return {prompt.prompt_id: prompt.sha256 for prompt in self.prompts}


def load_catalog(path: str | Path) -> Catalog:
    """Read and check a catalog. Raises InvalidInput with the first fault: file, line and column, found, allowed."""
    return _catalog(read_text(Path(path), max_bytes=MAX_BYTES), str(path))


def parse_catalog(data: bytes, file: str) -> Catalog:
    """The same of a catalog's bytes, which lie at `file`."""
    return _catalog(decode_text(data, file, max_bytes=MAX_BYTES), file)


def _catalog(text: str, file: str) -> Catalog:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    header = lines[0].removesuffix("\r") if lines else ""
    if header.split("\t") != list(HEADER):
        raise InvalidInput(file, "line 1", shown(header), "the header " + "<tab>".join(HEADER))
    if len(lines) == 1:
        raise InvalidInput(file, "", "no prompt", f"1..{MAX_PROMPTS} prompts")
    if len(lines) - 1 > MAX_PROMPTS:
        raise InvalidInput(file, "", f"{len(lines) - 1} prompts", f"1..{MAX_PROMPTS} prompts")

    prompts: list[Prompt] = []
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        prompt = _prompt(file, number, line.removesuffix("\r"))
        # Case folded: IDs are printed, typed and may name files, where EN-1 and en-1 are easily the same.
        earlier = ids.setdefault(prompt.prompt_id.casefold(), number)
        if earlier != number:
            raise InvalidInput(
                file, f"line {number}: prompt_id", f"{prompt.prompt_id} again, after line {earlier}", "unique IDs, case ignored"
            )
        earlier = texts.setdefault(prompt.text, number)
        if earlier != number:
            raise InvalidInput(
                file, f"line {number}: text", f"the text of line {earlier} again", "each text once: a cohort counts it once"
            )
        prompts.append(prompt)
    return Catalog(file, tuple(prompts))


def check_composition(catalog: Catalog, composition: Composition, *, job_file: str) -> None:
    """Raises InvalidInput unless the catalog's counts are the job's (study 2.4.7); what the job does not name counts 0."""
    for key, expected, found in (
        ("languages", composition.languages, Counter(prompt.language for prompt in catalog.prompts)),
        ("kinds", composition.kinds, Counter(prompt.kind for prompt in catalog.prompts)),
    ):
        if expected is None:
            continue
        allowed: Mapping[str, int] = {str(name): count for name, count in expected.items()}
        for name in sorted(allowed.keys() | found.keys()):
            if found[name] != allowed.get(name, 0):
                prompts = "1 prompt" if found[name] == 1 else f"{found[name]} prompts"
                raise InvalidInput(
                    job_file, f"composition.{key}.{name}", f"{prompts} in {catalog.file}", str(allowed.get(name, 0))
                )


def check_bindings(catalog: Catalog, recorded: Mapping[str, str]) -> None:
    """Raises InvalidInput for a prompt ID that the run's record binds to other bytes. New IDs and IDs no longer used are fine."""
    for prompt in catalog.prompts:
        bound = recorded.get(prompt.prompt_id, prompt.sha256)
        if bound != prompt.sha256:
            raise InvalidInput(
                catalog.file,
                prompt.prompt_id,
                f"text with SHA-256 {prompt.sha256[:16]}…",
                f"{bound[:16]}…, which the run has bound this ID to (give changed text a new ID)",
            )


def _prompt(file: str, number: int, line: str) -> Prompt:
    fields = line.split("\t")
    if len(fields) != len(HEADER):
        found = "an empty line" if not line else "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise InvalidInput(file, f"line {number}", found, f"{len(HEADER)} fields between tabs (a tab in a text is written \\t)")
    prompt_id, language, kind, written = fields
    if not PROMPT_ID.fullmatch(prompt_id):
        allowed = "1..64 of A-Z, a-z, 0-9, '.', '_', '-', with a letter or digit at both ends"
        raise InvalidInput(file, f"line {number}: prompt_id", shown(prompt_id), allowed)
    if not LANGUAGE_TAG.fullmatch(language):
        raise InvalidInput(file, f"line {number}: language", shown(language), "a language tag such as en, zh or zh-Hant")
    if kind not in KINDS:
        raise InvalidInput(file, f"line {number}: kind", shown(kind), " or ".join(KINDS))
    control = CONTROL.search(written)
    if control:
        raise InvalidInput(
            file, f"line {number}: text", f"the character U+{ord(control[0]):04X}", "text without control characters"
        )
    turned = BIDI.search(written)
    if turned:
        allowed = "text without controls of its direction, which show it in another order"
        raise InvalidInput(file, f"line {number}: text", f"the character U+{ord(turned[0]):04X}", allowed)
    for escape in ESCAPE.finditer(written):
        if escape[1] not in ESCAPES:
            raise InvalidInput(file, f"line {number}: text", f"the escape {shown(escape[0])}", r"\t, \n, \r and \\")
    text = ESCAPE.sub(lambda escape: ESCAPES[escape[1]], written)
    if not text.strip():
        raise InvalidInput(file, f"line {number}: text", shown(text), "text with something else than white space")
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise InvalidInput(file, f"line {number}: text", f"{len(text.encode())} bytes", f"at most {MAX_TEXT_BYTES} bytes")
    return Prompt(prompt_id, language, kind, text)

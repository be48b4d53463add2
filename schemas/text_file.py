"""Reading a text file that somebody else wrote, before anything in it is believed."""

from __future__ import annotations

import re
import stat
from datetime import date
from pathlib import Path

from schemas.errors import InvalidInput

BOM = b"\xef\xbb\xbf"

BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls of the direction of writing (Unicode's Bidi_Control): invisible, and text beside them is shown in another order."""


def read_text(path: Path, *, max_bytes: int, allow_bom: bool = False) -> str:
    """The file's text, strict UTF-8, line ends as they are.

    Raises InvalidInput for what cannot be read: missing, not a regular file (a pipe or a device would never end), over
    `max_bytes`, a byte-order mark (unless it is allowed: then it is dropped), bytes that are not UTF-8 (with their line), a NUL.
    """
    file = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInput(file, "", "a directory" if path.is_dir() else "a device or pipe", "a regular file")
        with path.open("rb") as handle:
            data = handle.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(file, "", reason[:1].lower() + reason[1:], "a readable file") from None
    return decode_text(data, file, max_bytes=max_bytes, allow_bom=allow_bom)


def decode_text(data: bytes, file: str, *, max_bytes: int, allow_bom: bool = False) -> str:
    """The text of bytes that were read from `file`; the same refusals."""
    if len(data) > max_bytes:
        raise InvalidInput(file, "", f"more than {max_bytes} bytes", f"at most {max_bytes} bytes")
    if allow_bom:
        data = data.removeprefix(BOM)
    if data.startswith(BOM):
        raise InvalidInput(file, "line 1", "a byte-order mark", "UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(file, f"line {line}", f"byte 0x{data[error.start]:02x} at offset {error.start}", "UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput(file, f"line {line}", "a NUL character", "text")
    return text


def path_beside(file: Path, key: str, written: str) -> Path:
    """The path that `file` names under `key`.

    Raises InvalidInput for a relative one that leaves the file's folder, symbolic links followed. An absolute one is allowed: it
    says openly where it leads.
    """
    folder = file.parent
    if not Path(written).is_absolute() and not (folder / written).resolve().is_relative_to(folder.resolve()):
        raise InvalidInput(str(file), key, shown(written), "a path inside the job file's folder, or an absolute one")
    return folder / written


def shown(value: object, limit: int = 60) -> str:
    """A value as an error line shows it: one line, clipped, its kind in words where its content would not help."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case date():
            return f"the date {value}"
        case dict():
            return f"a mapping of {len(value)}" if value else "an empty mapping"
        case list() | tuple():
            return f"a list of {len(value)}" if value else "an empty list"
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

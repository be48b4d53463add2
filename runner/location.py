"""Addresses of runs as people type them: a path on this machine or a shared one, or s3://bucket/prefix."""

from __future__ import annotations

import re
from pathlib import Path, PurePath, PurePosixPath

from schemas.errors import InvalidInput
from schemas.text_file import shown

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class ObjectPath(PurePosixPath):
    """The address of an object, or of all that begin with it: `s3://bucket/key`. Its first part is the bucket."""

    @property
    def bucket(self) -> str:
        return self.parts[0]

    @property
    def key(self) -> str:
        return "/".join(self.parts[1:])

    def __str__(self) -> str:
        return f"s3://{super().__str__()}"


def location(text: str) -> PurePath:
    """The location that `text` names. Raises InvalidInput for a scheme that is not s3, without a bucket, and for `.` or `..` in a
    key.
    """
    scheme = SCHEME.match(text)
    if scheme is None:
        return Path(text)
    allowed = "a path, or s3://bucket/prefix"
    if scheme[1] != "s3":
        raise InvalidInput(text, "", f"the scheme {shown(scheme[1])}", allowed)
    bucket, *names = text[scheme.end() :].rstrip("/").split("/")
    if not BUCKET.fullmatch(bucket):
        raise InvalidInput(text, "", f"the bucket {shown(bucket)}", allowed)
    if not names or any(name in ("", ".", "..") or not name.isprintable() for name in names):
        raise InvalidInput(text, "", f"the prefix {shown('/'.join(names))}", allowed)
    return ObjectPath(bucket, *names)

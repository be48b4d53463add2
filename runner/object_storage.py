"""A run in an object store that speaks S3. Implements `runner.storage.Storage`.

Reads and lists through `pyarrow.fs`, as readers of the dataset do. Writes through boto3, an extra of this package: a commit needs
a put that fails where something is (`If-None-Match: *`), which pyarrow's file systems cannot do. Credentials, region and
endpoint come from the environment variables and files of AWS (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL and so on).
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import PurePath
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from pyarrow import fs

from runner.location import ObjectPath
from schemas.errors import InvalidInput

T = TypeVar("T")

_CONFLICTS = 5
"""Conditional puts of one key at the same time that are tried again before it is an error."""

_ATTEMPTS = 5
"""Of a request that fails for a reason which may pass."""

_APPEND_SECONDS = 5.0
_APPEND_BYTES = 1 << 16
"""A log becomes an object when it is this old or this long."""


class ObjectStorage:
    """Objects of one S3 endpoint. Raises InvalidInput when boto3 is not installed."""

    parallel = 16

    def __init__(self) -> None:
        self._client = _client()
        self._files = _files()

    def exists(self, path: PurePath) -> bool:
        return self._read(path, lambda: bool(self._files.get_file_info(_arrow_path(path)).is_file))

    def read(self, path: PurePath, limit: int | None = None) -> bytes:
        def read() -> bytes:
            with self._files.open_input_file(_arrow_path(path)) as file:
                return bytes(file.read() if limit is None else file.read_at(min(limit, file.size()), 0))

        return self._read(path, read)

    def names(self, directory: PurePath) -> list[str]:
        return sorted(info.base_name for info in self._listed(directory) if info.is_file)

    def entries(self, directory: PurePath) -> list[PurePath]:
        return sorted(directory / info.base_name for info in self._listed(directory))

    def create(self, path: PurePath, data: bytes, *, read_only: bool = True) -> None:
        for attempt in range(1, _CONFLICTS + 1):
            try:
                self._put(path, data, IfNoneMatch="*")
            except FileExistsError:
                # The client repeats a put whose answer was lost, and then finds what it wrote itself.
                if self.read(path) != data:
                    raise
            except BlockingIOError:
                if attempt == _CONFLICTS:
                    raise
                time.sleep(0.1 * attempt)
                continue
            return

    def replace(self, path: PurePath, data: bytes) -> None:
        self._put(path, data)

    def overwrite(self, path: PurePath, data: bytes) -> None:
        self._put(path, data)

    def remove(self, path: PurePath) -> None:
        bucket, key = _address(path)
        self._write(path, lambda: self._client.delete_object(Bucket=bucket, Key=key))

    def appender(self, path: PurePath) -> ObjectAppender:
        return ObjectAppender(self, path)

    def read_appended(self, path: PurePath, offset: int = 0) -> bytes:
        pieces = []
        for info in sorted((info for info in self._listed(path) if info.is_file), key=lambda info: str(info.base_name)):
            if offset < info.size:
                pieces.append(self.read(path / info.base_name)[offset:])
            offset = max(0, offset - info.size)
        return b"".join(pieces)

    def lock(self, root: PurePath) -> tuple[bool, Callable[[], None]]:
        return False, lambda: None

    def is_locked(self, root: PurePath) -> bool:
        return False

    def leftovers(self, root: PurePath) -> list[PurePath]:
        return []  # an object is there whole or not at all

    def _put(self, path: PurePath, data: bytes, **conditions: str) -> None:
        bucket, key = _address(path)
        self._write(path, lambda: self._client.put_object(Bucket=bucket, Key=key, Body=data, **conditions))

    def _listed(self, directory: PurePath) -> list[fs.FileInfo]:
        selector = fs.FileSelector(_arrow_path(directory), allow_not_found=True)
        return list(self._read(directory, lambda: self._files.get_file_info(selector)))

    def _read(self, path: PurePath, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(path)) from None
        except OSError as error:
            text = " ".join(str(error).split())
            refused = "ACCESS_DENIED" in text or "HTTP status 403" in text or "INVALID_ACCESS_KEY" in text
            raise OSError(errno.EACCES if refused else errno.EIO, text, str(path)) from None

    def _write(self, path: PurePath, write: Callable[[], object]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            write()
        except ClientError as error:
            _raise(path, error.response)
        except BotoCoreError as error:
            raise OSError(errno.EIO, " ".join(str(error).split()), str(path)) from None


class ObjectAppender:
    """Collects lines and writes them as one object now and then, below `path`, which is their directory."""

    def __init__(self, storage: ObjectStorage, path: PurePath) -> None:
        self._storage = storage
        self._path = path
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._since = time.monotonic()

    def write(self, data: bytes) -> None:
        self._waiting.append(data)
        self._bytes += len(data)
        if self._bytes >= _APPEND_BYTES or time.monotonic() - self._since >= _APPEND_SECONDS:
            self._flush()

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._waiting:
            name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
            self._storage.replace(self._path / name, b"".join(self._waiting))
        self._waiting.clear()
        self._bytes = 0
        self._since = time.monotonic()


def _raise(path: PurePath, response: Any) -> NoReturn:
    """Raise what a refusal of the store means."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code, message = (str(response.get("Error", {}).get(name, "")) for name in ("Code", "Message"))
    if code == "NoSuchBucket":
        raise InvalidInput(str(path), "", "no such bucket", "a bucket that is there")
    if status == 412:
        raise FileExistsError(errno.EEXIST, "there is such an object", str(path))
    if status == 409:
        raise BlockingIOError(errno.EIO, "another conditional put of this object", str(path))
    raise OSError(errno.EACCES if status in (401, 403) else errno.EIO, f"{code}: {' '.join(message.split())}", str(path))


def _address(path: PurePath) -> tuple[str, str]:
    assert isinstance(path, ObjectPath), f"{path!r} is no address of an object"
    return path.bucket, path.key


def _arrow_path(path: PurePath) -> str:
    return "/".join(_address(path))


@cache
def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise InvalidInput("s3://", "", "no package boto3", "pip install 'moe-conformance-runner[s3]'") from None

    session = boto3.session.Session()

    def client(style: dict[str, str]) -> Any:
        config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": _ATTEMPTS}, s3=style)
        return session.client("s3", config=config, region_name=session.region_name or "us-east-1")

    found = client({})
    # Stores that are not Amazon's seldom have a host name a bucket.
    return found if _endpoint_of(found) is None else client({"addressing_style": "path"})


def _endpoint_of(client: Any) -> str | None:
    """The URL that variables or files name; None for Amazon's own, which differs by bucket and region."""
    url = str(client.meta.endpoint_url)
    host = urlsplit(url).hostname or ""
    return None if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else url


@cache
def _files() -> fs.S3FileSystem:
    # What the client found, because the two look in different places.
    client = _client()
    return fs.S3FileSystem(
        region=client.meta.region_name,
        endpoint_override=_endpoint_of(client),
        connect_timeout=10,
        request_timeout=60,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )

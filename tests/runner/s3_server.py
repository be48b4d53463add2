"""An S3 server in this process, and storages on it that go wrong at the Nth write."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from runner import object_storage
from runner.location import ObjectPath
from runner.object_storage import ObjectStorage

BUCKET = "runs"


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of a server with one bucket; the environment leads everything to it, in this process and its children."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    forget_clients()
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    try:
        yield variables["AWS_ENDPOINT_URL"]
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        forget_clients()
        server.stop()


def forget_clients() -> None:
    """Connections to a server that was there before."""
    object_storage._client.cache_clear()
    object_storage._files.cache_clear()


def new_prefix() -> ObjectPath:
    return ObjectPath(BUCKET, uuid.uuid4().hex)


class Killed(BaseException):
    """The process is no more: nothing catches this, and nothing is written after it."""


class FaultyStorage(ObjectStorage):
    """Goes wrong at write `at`, puts and deletes counted from 1.

    how: "before" the process is killed instead of the write, "after" it is killed when the write is done and its answer lost,
    "refused" this write and every later one is refused.
    """

    def __init__(self, at: int, how: str) -> None:
        super().__init__()
        self.writes = 0
        self._at = at
        self._how = how

    def _put(self, path: PurePath, data: bytes, **conditions: str) -> None:
        self._faulty(path, lambda: super(FaultyStorage, self)._put(path, data, **conditions))

    def remove(self, path: PurePath) -> None:
        self._faulty(path, lambda: super(FaultyStorage, self).remove(path))

    def _faulty(self, path: PurePath, write: Any) -> None:
        self.writes += 1
        if self.writes < self._at:
            write()
            return
        if self._how == "refused":
            raise OSError(errno.EACCES, "AccessDenied: Access Denied", str(path))
        if self._how == "after" and self.writes == self._at:
            write()
        raise Killed

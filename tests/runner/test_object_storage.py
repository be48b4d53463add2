"""Runs in an object store: the same bytes as on a disk, whatever is killed or refused on the way."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import boto3
import pyarrow.dataset
import pytest
from s3_server import BUCKET, FaultyStorage, Killed, forget_clients, new_prefix, s3_server
from tiny_run import DirectedExecutor, TinyProtocol, complete, dataset, drive, execute, experiment, open_reader, rows

from runner import claim, object_storage, process
from runner.claim import Claim
from runner.commit import Committer
from runner.location import ObjectPath, location
from runner.object_storage import ObjectStorage
from runner.paths import RunPaths
from runner.store import RunStore
from runner.verify import verify
from schemas.errors import InvalidInput, RunBusy

SMALL = experiment(prompts=2)


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(complete(tmp_path_factory.mktemp("disk"), about=SMALL))


def store_at(root: ObjectPath) -> RunStore:
    return RunStore(RunPaths(root), TinyProtocol().schemas())


def test_a_run_in_an_object_store_has_the_bytes_of_one_on_disk(on_disk: dict[str, bytes]) -> None:
    assert dataset(complete(new_prefix(), storage=ObjectStorage(), about=SMALL)) == on_disk


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "refused"])
def test_a_fault_at_every_put_and_delete(on_disk: dict[str, bytes], how: str) -> None:
    for at in count(1):
        root, storage = new_prefix(), FaultyStorage(at, how)
        try:
            complete(root, storage=storage, about=SMALL)
        except (Killed, OSError):
            left = verify(store_at(root), TinyProtocol(), SMALL)
            assert left.clean, left.faults
            store = complete(root, DirectedExecutor(workers_alive=1), storage=ObjectStorage(), about=SMALL)
            assert dataset(store) == on_disk
            whole = verify(open_reader(store), TinyProtocol(), SMALL)
            assert whole.clean, whole.faults
            assert not whole.leftovers
        else:
            break
    assert at > 15


def test_the_dataset_is_read_by_pyarrow(server: str) -> None:
    store = complete(new_prefix(), storage=ObjectStorage(), about=experiment())
    where = str(store.paths.table("tokens")).replace("s3://", "")
    files = pyarrow.fs.S3FileSystem(endpoint_override=server, region="us-east-1")
    found = pyarrow.dataset.dataset(where, filesystem=files, format="parquet").to_table()
    assert found.num_rows == sum(len(store.units(stage)) for stage in ("4", "8"))


def test_a_run_goes_on_from_a_copy_on_another_storage(tmp_path: Path, on_disk: dict[str, bytes]) -> None:
    root = new_prefix()
    with pytest.raises(Killed):
        complete(root, storage=FaultyStorage(8, "before"), about=SMALL)
    bucket = boto3.resource("s3").Bucket(BUCKET)
    for found in bucket.objects.filter(Prefix=root.key + "/"):
        target = tmp_path / found.key.removeprefix(root.key + "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(found.get()["Body"].read())
    assert dataset(complete(tmp_path, about=SMALL)) == on_disk


def test_what_is_created_is_never_replaced() -> None:
    storage, path = ObjectStorage(), new_prefix() / "object"
    storage.create(path, b"first")
    with pytest.raises(FileExistsError):
        storage.create(path, b"second")
    storage.create(path, b"first")  # as a repeated request would
    assert storage.read(path) == b"first"


def test_of_many_creations_at_once_one_succeeds() -> None:
    path = new_prefix() / "object"
    outcomes: list[bool] = []

    def create(number: int) -> None:
        try:
            ObjectStorage().create(path, b"%d" % number)
            outcomes.append(True)
        except FileExistsError:
            outcomes.append(False)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(True) == 1
    assert len(outcomes) == 8


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(claim, "EXPIRY_SECONDS", 1.5)


@pytest.mark.usefixtures("quick")
def test_a_run_in_an_object_store_has_one_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    paths, storage = RunPaths(new_prefix()), ObjectStorage()
    with Claim(storage, paths) as first:
        with pytest.raises(RunBusy, match=f"process {os.getpid()} on host"), Claim(storage, paths):
            pass
        with monkeypatch.context() as elsewhere:  # as if this process were one of another machine
            elsewhere.setattr(process, "_machine", lambda: "another machine")
            with pytest.raises(RunBusy, match=rf"process {os.getpid()} on host .*, last heard of at "), Claim(storage, paths):
                pass
        first.require_held()
    with Claim(storage, paths) as second:
        assert second.epoch == first.epoch + 1
    assert claim.holder(storage, paths) is None


@pytest.mark.usefixtures("quick")
def test_a_driver_that_was_given_up_commits_nothing_to_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    paths, schemas = RunPaths(new_prefix()), TinyProtocol().schemas()
    units = TinyProtocol().units(experiment(), "4", None)  # type: ignore[arg-type]
    first, second = RunStore(paths, schemas), RunStore(paths, schemas)
    with Claim(first.storage, paths) as held:
        first.recover(held)
        held._stop.set()  # it renews its claim no more, as if it had been stopped
        late = Committer(first)
        late.add("4", execute(None, units))
        monkeypatch.setattr(process, "_machine", lambda: "another machine")
        with Claim(second.storage, paths) as taken:
            second.recover(taken)
            first._require_held = lambda *, look=False: None  # it looked just before it was stopped
            with pytest.raises(RunBusy, match=r"another driver has taken this run over and written 000000002\.entry"):
                late.commit()
            with pytest.raises(RunBusy, match="this driver was given up"):
                held.require_held()
            committer = Committer(second)
            committer.add("4", execute(None, units))
            assert len(committer.commit()) == len(units)
    assert store_at(paths.root).units("4") == {unit.key for unit in units}


def test_names_and_entries_are_those_right_below() -> None:
    storage, root = ObjectStorage(), new_prefix()
    assert storage.names(root) == []
    for name in ("b", "a", "below/c"):
        storage.replace(root / name, b"")
    assert storage.names(root) == ["a", "b"]
    assert storage.entries(root) == [root / "a", root / "b", root / "below"]
    storage.remove(root / "a")
    storage.remove(root / "a")
    assert storage.names(root) == ["b"]


def test_a_part_of_an_object_is_read_alone() -> None:
    storage, path = ObjectStorage(), new_prefix() / "object"
    storage.replace(path, b"0123456789")
    assert storage.read(path, 4) == b"0123"
    assert storage.read(path, 40) == b"0123456789"
    with pytest.raises(FileNotFoundError) as caught:
        storage.read(path / "nothing", 4)
    assert caught.value.filename == f"{path}/nothing"


def test_a_log_is_read_in_the_order_in_which_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "_APPEND_BYTES", 8)
    storage, path = ObjectStorage(), new_prefix() / "events.log"
    appender = storage.appender(path)
    for number in range(9):
        appender.write(b"line %d\n" % number)
    appender.close()
    assert storage.read_appended(path) == b"".join(b"line %d\n" % number for number in range(9))
    whole = storage.read_appended(path)
    assert [storage.read_appended(path, offset) for offset in range(70)] == [whole[offset:] for offset in range(70)]
    assert storage.read_appended(new_prefix()) == b""


def test_more_entries_than_are_read_together_come_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("runner.journal._AHEAD", 3)
    about, root = experiment(prompts=9, batch=1), new_prefix()
    drive(root, storage=ObjectStorage(), about=about)
    drive(tmp_path, about=about)
    assert rows(root) == rows(tmp_path)


@pytest.mark.parametrize("text", ["s3://runs/a", "s3://runs/a/b-c/d.e/", "s3://my.bucket/x"])
def test_an_address_is_told_as_it_was_given(text: str) -> None:
    found = location(text)
    assert isinstance(found, ObjectPath)
    assert str(found / "run.json") == text.rstrip("/") + "/run.json"
    assert str((found / "x").parent) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    ["gs://b/x", "S3://runs/a", "s3://", "s3://runs", "s3://runs/", "s3:///x", "s3://Runs/x", "s3://r/x", "s3://runs/a/../b",
     "s3://runs/./a", "s3://runs/a//b", "s3://runs/a\nb"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="allowed: a path, or s3://bucket/prefix"):
        location(text)


def test_a_path_is_a_path() -> None:
    assert location("runs/x") == Path("runs/x")


def test_a_bucket_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match="s3://nowhere/x: found no such bucket"):
        ObjectStorage().create(ObjectPath("nowhere", "x"), b"")


def test_a_store_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(object_storage, "_ATTEMPTS", 1)
    forget_clients()
    try:
        for use in (lambda: ObjectStorage().replace(new_prefix(), b""), lambda: ObjectStorage().exists(new_prefix())):
            with pytest.raises(OSError, match="s3://runs/") as caught:
                use()
            assert "\n" not in str(caught.value)
    finally:
        forget_clients()


def test_without_its_extra_an_object_store_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    forget_clients()
    try:
        with pytest.raises(InvalidInput, match=r"found no package boto3, allowed: pip install 'moe-conformance-runner\[s3\]'"):
            ObjectStorage()
    finally:
        forget_clients()


def test_content_goes_there_and_back_whole() -> None:
    storage, path = ObjectStorage(), new_prefix() / "object"
    data = bytes(range(256)) * 50_000
    storage.create(path, data)
    assert io.BytesIO(storage.read(path)).getvalue() == data


def test_an_endpoint_in_the_config_file_serves_reads_and_writes(
    server: str, on_disk: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text(f"[default]\nendpoint_url = {server}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    forget_clients()
    try:
        assert dataset(complete(new_prefix(), storage=ObjectStorage(), about=SMALL)) == on_disk
    finally:
        forget_clients()

"""A run whose driver is a job on the head of a cluster, asked for over HTTP by a machine that is no part of it.

The package is installed on the cluster's hosts; the job file with all overrides in it, its catalog and the options travel. The
driver goes on without whoever asked for it, so any machine that reaches the head can ask how it gets on, follow it, stop it, or
have another go on with the run.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import yaml

from runner.interrupt import Interrupted
from schemas.catalog import check_composition, load_catalog
from schemas.errors import ClusterUnreachable, InvalidInput, RunBusy
from schemas.job_file import BUILTIN, JobFile

if TYPE_CHECKING:
    from actors.job_server import JobEnd, JobServer, Submission

DRIVER, HELPER = "driver", "helper"
"""What a job of ours does: it carries a run out, or looks at one or sends it a signal where its driver is."""

NAME_CHARACTERS = 64
"""As many as a job's name has at most; a run's directory may have a longer one."""


class Stopped(Interrupted):
    """A job was told to stop, and has ended; Ray keeps no exit code of such a one."""


class Head:
    """The head of the cluster whose Jobs API has this address. Raises ClusterUnreachable, InvalidInput for what is no address."""

    def __init__(self, address: str) -> None:
        # Here, because Ray takes a second to import, which no other command should wait for.
        from actors.job_server import JobServer

        self.server: JobServer = JobServer(address)

    def submit(self, job_file: JobFile, root: str, options: Sequence[str]) -> str:
        """Have the job's driver start there; returns the submission. Raises InvalidInput for a job that cannot travel."""
        with tempfile.TemporaryDirectory() as folder:
            _pack(job_file, Path(folder))
            command = ["submit", "job.yaml", "--run-dir", root, "--address", "auto", *options]
            return self._start(command, DRIVER, root, job_file.job.name, Path(folder))

    def go_on(self, command: str, root: str, options: Sequence[str]) -> str:
        """Have a driver go on with the run at `root` by `runner COMMAND ROOT`; returns the submission."""
        return self._start([command, root, "--address", "auto", *options], DRIVER, root, PurePath(root).name)

    def ask(self, command: Sequence[str], root: str) -> tuple[int, str]:
        """(exit code, output) of a command that looks at the run, or stops its driver, there; takes about five seconds."""
        submission = self._start(command, HELPER, root, command[0])
        output = "".join(self.server.follow(submission))
        return exit_code(self._ended(submission), root), output

    def cancel(self, root: str, options: Sequence[str]) -> tuple[int, str, str | None]:
        """`runner cancel --json` where the driver is: (exit code, output, the submission that was stopped instead, or None).

        A driver that waits for its turn, or still gets ready, has no claim that the command could find it by: its submission is
        stopped then, before it has begun with anything.
        """
        code, output = self.ask(["cancel", root, *options, "--json"], root)
        if code == 0 and said_as_json(output)["asked"]:
            return code, output, None
        try:
            driver = self.driver_of(root)
        except InvalidInput:
            return code, output, None
        if driver.ended:
            return code, output, None
        self.server.stop(driver.name)
        return 0, output, driver.name

    def driver_of(self, root: str) -> Submission:
        """The submission that has the run, or had it last. Raises InvalidInput when the cluster knows none."""
        known = [one for one in self.server.submissions() if one.metadata.get("runner") == DRIVER]
        ours = [one for one in known if root in (one.metadata.get("run"), one.name)]
        if not ours:
            runs = sorted({one.metadata["run"] for one in known if "run" in one.metadata})
            raise InvalidInput(
                root, "", f"no run that was submitted to {self.server.address}", f"one of {', '.join(runs) or 'none'}"
            )
        return max(ours, key=lambda one: (not one.ended, one.code != RunBusy.exit_code, one.started))

    def conclude(self, submission: str, root: str) -> int:
        """Exit code of a driver that has ended. Raises Stopped, and ClusterUnreachable when it ended because its host or the
        cluster did: what has become of the run only the store can tell then.
        """
        return exit_code(self._ended(submission), root)

    def _start(self, command: Sequence[str], role: str, root: str, name: str, folder: Path | None = None) -> str:
        submission = f"runner-{_plain(name)}-{secrets.token_hex(4)}"
        metadata = {"runner": role, "run": root, "name": name}
        return self.server.submit(command, name=submission, folder=folder, metadata=metadata)

    def _ended(self, submission: str) -> JobEnd:
        end = self.server.end(submission)
        if end is None:
            raise RuntimeError(f"{submission} was followed to its end and has none")
        return end


def is_head(address: str | None) -> bool:
    """Whether an address is one of a head's Jobs API, rather than of a cluster to join."""
    return address is not None and address.startswith(("http://", "https://"))


def there(root: PurePath | None) -> str:
    """A run's place as the cluster knows it. Raises InvalidInput for a path that depends on where it is said."""
    text = "nothing" if root is None else str(root)
    if root is None or not (root.is_absolute() or text.startswith("s3://")):
        raise InvalidInput(
            "--run-dir", "", text, "an absolute path on the head, or one that all hosts share, or s3://bucket/prefix"
        )
    return text


def exit_code(end: JobEnd, root: str) -> int:
    """What a driver ended with, which has asked the store. Raises Stopped; ClusterUnreachable when it did not end by itself."""
    if end.status == "STOPPED":
        raise Stopped(f"the driver was stopped; `runner resume {root}` goes on")
    if end.code is None:
        raise ClusterUnreachable(f"the driver's host or its Ray is gone: {end.message}; `runner resume {root}` goes on")
    return end.code


def said_as_json(output: str) -> Any:
    """The one JSON value with which a command's output ends. Raises ValueError when there is none."""
    start = max(output.rfind("\n{"), output.rfind("\n["), -1) + 1
    return json.loads(output[start:])


def _plain(name: str) -> str:
    """A name as a part of a submission's, which becomes part of addresses and of names of files."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:NAME_CHARACTERS].strip("-") or "run"


def _pack(job_file: JobFile, folder: Path) -> None:
    """Write down what the job is, complete: with its overrides and the content of what it names."""
    job = job_file.job
    catalog = load_catalog(job_file.catalog)
    if job.composition is not None:
        check_composition(catalog, job.composition, job_file=str(job_file.path))
    if job.checkpoint != BUILTIN and not Path(job.checkpoint).is_absolute():
        allowed = "builtin, or an absolute path, at which every host of the cluster has it"
        raise InvalidInput(str(job_file.path), "checkpoint", job.checkpoint, allowed)
    data = job.model_dump(mode="json") | {"catalog": "catalog.tsv"}
    (folder / "job.yaml").write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False), encoding="utf-8")
    (folder / "catalog.tsv").write_bytes(job_file.catalog.read_bytes())

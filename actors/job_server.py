"""The Jobs API of a Ray cluster, over HTTP: how a machine outside of the cluster has a command run on its head.

Never `ray://`: the end of a Ray client is the end of its work, while a job goes on without whoever asked for it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from actors.cluster import TOKEN_PLACES, quieten, require_listener
from schemas.errors import ClusterUnreachable, InvalidInput

REQUEST_SECONDS = 30.0
"""Ray's own client would wait for ever."""

FOLLOW_SECONDS = 1.0
"""Between two looks at the log of a job that is followed."""

LOST_SECONDS = 60.0
"""A cluster that was reached and has not answered for this long is gone."""

STOP_SECONDS = 60
"""What `ray job stop` gives a driver to finish what is in flight; Ray's default is 3."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended. code: of its command, None where it ended without one. message: one line, what Ray says of it."""

    status: str
    code: int | None
    message: str


@dataclass(frozen=True)
class Submission:
    """A job that the cluster knows. started: milliseconds since 1970. code: of its command, None where it has none."""

    name: str
    metadata: Mapping[str, str]
    started: int
    ended: bool
    code: int | None


class JobServer:
    """The Jobs API at http://HOST:PORT. Every method raises ClusterUnreachable when it does not answer or refuses the token."""

    def __init__(self, address: str) -> None:
        """Raises InvalidInput for what is no such address."""
        self.address = address
        parts = urlsplit(address)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            port = 0
        if (
            parts.scheme not in ("http", "https")
            or not (parts.hostname and port)
            or parts.query
            or parts.fragment
            or "@" in parts.netloc
        ):
            raise InvalidInput("cluster address", "", repr(address), "http://HOST:PORT of the head's dashboard")
        require_listener(f"{parts.hostname}:{port}")
        quieten()
        with self._answers(), _no_other_address():
            maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
            self._client = _Client(address)

    def submit(self, command: Sequence[str], *, name: str, folder: Path | None, metadata: Mapping[str, str]) -> str:
        """Have `python3 -m runner COMMAND` run on the head, in a copy of `folder`; returns the submission's name.

        The interpreter is the one that stands first in the PATH with which Ray was started there.
        """
        environment = {"working_dir": str(folder)} if folder is not None else {}
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}
        with self._answers():
            return self._client.submit_job(
                entrypoint=_entrypoint(command),
                submission_id=name,
                runtime_env={**environment, "env_vars": variables},
                metadata=dict(metadata),
            )

    def follow(self, submission: str) -> Iterator[str]:
        """What the command writes, piece by piece from its beginning to its end; "" now and then when it writes nothing.

        The whole log is asked for again and again, as it grows by a line in ten seconds: an open connection can die unnoticed.
        """
        seen, reached = 0, time.monotonic()
        while True:
            try:
                ended = self.end(submission) is not None  # before the log, which is whole then
                output = self.output(submission, ended=ended)
                reached = time.monotonic()
            except ClusterUnreachable:
                if time.monotonic() - reached > LOST_SECONDS:
                    raise
            else:
                yield output[seen:]
                seen = len(output)
                if ended:
                    return
            time.sleep(FOLLOW_SECONDS)

    def end(self, submission: str) -> JobEnd | None:
        """How the job ended; None while it has not. Raises InvalidInput for one that the cluster does not know."""
        with self._answers():
            info = self._client.get_job_info(submission)
        if info.status not in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED):
            return None
        return JobEnd(info.status.value, info.driver_exit_code, (info.message or "").strip().partition("\n")[0])

    def output(self, submission: str, *, ended: bool = True) -> str:
        """What the command has written so far; of a job that has ended without it being run, what Ray says of that."""
        with self._answers():
            log = self._client.get_job_logs(submission)
        before, begun, output = log.partition("Running entrypoint for job ")
        return output.partition("\n")[2] if begun else before if ended else ""

    def submissions(self) -> list[Submission]:
        """Jobs that the cluster knows, oldest first."""
        with self._answers():
            jobs = self._client.list_jobs()
        found = [
            Submission(job.submission_id, job.metadata or {}, job.start_time or 0, job.status.is_terminal(), job.driver_exit_code)
            for job in jobs
            if job.submission_id
        ]
        return sorted(found, key=lambda one: one.started)

    def stop(self, submission: str) -> None:
        """Send the job SIGTERM; kill it where it has not ended STOP_SECONDS later."""
        with self._answers():
            self._client.stop_job(submission)

    @contextlib.contextmanager
    def _answers(self) -> Iterator[None]:
        """Turn what Ray's client raises into one line."""
        try:
            yield
        except AuthenticationError as error:
            has = "none was found" if "required" in str(error) or "cannot be opened" in str(error) else "not the one found"
            raise ClusterUnreachable(f"{self.address} wants its token, {has}: {TOKEN_PLACES}") from None
        except requests.RequestException as error:
            raise ClusterUnreachable(f"no answer from {self.address}: {_first_line(error)}") from None
        except ConnectionError:
            raise ClusterUnreachable(f"no answer from {self.address}") from None
        except RuntimeError as error:
            raise ClusterUnreachable(f"{self.address}: {_first_line(error)}") from None


class _Client(JobSubmissionClient):
    def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
        return super()._do_request(method, endpoint, timeout=REQUEST_SECONDS, **options)


def _entrypoint(command: Sequence[str]) -> str:
    """-P keeps the working directory out of the import path. Where the package cannot be imported it ends in one line."""
    who = "runner: host $(hostname): $(command -v python3 || echo python3) cannot import the package: "
    return (
        'error=$(python3 -P -c "import runner.cli.command_line" 2>&1) || '
        f'{{ printf "%s\\n" "{who}$(printf "%s\\n" "$error" | tail -n 1)"; exit 2; }}; '
        f"exec python3 -P -m runner {shlex.join(command)}"
    )


@contextlib.contextmanager
def _no_other_address() -> Iterator[None]:
    """Ray's client puts these before the address it is given."""
    kept = {name: os.environ.pop(name) for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

"""The Jobs API of a head that answers, refuses, hangs or is something else, played by a small server in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from actors import job_server as module
from actors.job_server import JobServer, _entrypoint
from schemas.errors import ClusterUnreachable, InvalidInput

Answer = Callable[[str, str, Any], tuple[int, Any]]


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], str]]:
    """Serve answers to (method, path, content); returns the address."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # which Ray's client would take instead
    monkeypatch.setattr(module, "FOLLOW_SECONDS", 0.01)
    servers = []

    def serve(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                content = self.rfile.read(length)
                said = json.loads(content) if content and self.command == "POST" else content
                status, body = (200, {"ray_version": "2.60.0"}) if self.path == "/api/version" else (0, None)
                if not status or getattr(answer, "everything", False):
                    status, body = answer(self.command, self.path, said)
                data = json.dumps(body).encode() if not isinstance(body, str) else body.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = handle_any  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def everything(answer: Answer) -> Answer:
    answer.everything = True  # type: ignore[attr-defined]
    return answer


def job(status: str, **more: object) -> dict[str, object]:
    return {"type": "SUBMISSION", "submission_id": "s1", "status": status, "entrypoint": "x", **more}


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_says_where_tokens_are_looked_for(head: Callable[[Answer], str], status: int) -> None:
    address = head(everything(lambda *_: (status, "no")))
    with pytest.raises(ClusterUnreachable, match=rf"{address} wants its token, .*: RAY_AUTH_TOKEN, .*RAY_AUTH_TOKEN_PATH, or ~/"):
        JobServer(address)


@pytest.mark.parametrize("answer", [(500, "oops\nand more"), (404, "nothing"), (200, "no JSON")])
def test_another_server_is_no_head(head: Callable[[Answer], str], answer: tuple[int, str]) -> None:
    with pytest.raises(ClusterUnreachable) as error:
        JobServer(head(everything(lambda *_: answer)))
    assert "\n" not in str(error.value)


def test_a_head_that_hangs_is_given_up(head: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.2)
    hang = threading.Event()

    @everything
    def answer(*_: object) -> tuple[int, str]:
        hang.wait(10)
        return 200, "late"

    with pytest.raises(ClusterUnreachable, match="no answer from"):
        JobServer(head(answer))
    hang.set()


@pytest.mark.parametrize(
    "address", ["http://", "http://host:port", "http://u:p@h:1", "http://h:1/?x", "http://h:99999", "ftp://h:1"]
)
def test_what_is_no_address_of_a_head(address: str) -> None:
    with pytest.raises(InvalidInput, match="allowed: http://HOST:PORT"):
        JobServer(address)


def test_a_command_is_submitted_with_its_folder_alone(head: Callable[[Answer], str], tmp_path: Path) -> None:
    submitted: list[dict[str, Any]] = []
    packages: dict[str, int] = {}

    def answer(method: str, path: str, said: Any) -> tuple[int, Any]:
        if path.startswith("/api/packages/"):
            if method == "PUT":
                packages[path] = len(said)
            return (200 if path in packages else 404), {}
        submitted.append(said)
        return 200, {"job_id": "s1", "submission_id": said["submission_id"]}

    (tmp_path / "job.yaml").write_text("name: x\n")
    server = JobServer(head(answer))
    assert server.submit(["submit", "job.yaml", "--set", "a='b c'"], name="s1", folder=tmp_path, metadata={"run": "/r"}) == "s1"
    (said,) = submitted
    assert said["entrypoint"].endswith("""exec python3 -P -m runner submit job.yaml --set 'a='"'"'b c'"'"''""")
    assert said["metadata"] == {"run": "/r"}
    assert said["runtime_env"]["working_dir"].startswith("gcs://")
    assert list(packages.values()) == [size for size in packages.values() if size < 1000]
    assert os.environ["RAY_ADDRESS"] == "127.0.0.1:1"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise ImportError('a \\\\n of half an installation')", r"ImportError: a \n of half an installation"),
        (None, "No module named"),
    ],
)
def test_a_head_that_cannot_import_the_package_says_why_in_one_line(tmp_path: Path, module: str | None, said: str) -> None:
    (tmp_path / "runner").mkdir()
    for name, content in (("__init__", ""), ("cli", module or "import a_package_that_is_not_there")):
        (tmp_path / "runner" / f"{name}.py").write_text(content)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        ["sh", "-c", _entrypoint(["status", "/r"])], env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr, ended.stdout.count("\n")) == (2, "", 1)
    assert f"cannot import the package: {'ModuleNotFoundError: ' if module is None else ''}{said}" in ended.stdout


def test_an_entrypoint_runs_the_command() -> None:
    root = str(Path(module.__file__).parents[1])
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": root}
    ended = subprocess.run(["sh", "-c", _entrypoint(["--help"])], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Usage: runner")


def test_following_gives_what_the_command_wrote_once_and_survives_a_failed_look(head: Callable[[Answer], str]) -> None:
    log = "Runtime env is setting up.\nRunning entrypoint for job s1: python3\none\ntwo\nthree\n"
    lengths = iter([0, 20, 70, 75, len(log), len(log)])
    looks = iter(["PENDING", "RUNNING", "RUNNING", "RUNNING", "RUNNING", "FAILED"])
    failing = iter([False, False, True] + [False] * 20)

    def answer(method: str, path: str, said: Any) -> tuple[int, Any]:
        if next(failing):
            return 500, "the agent is away"
        if path.endswith("/logs"):
            return 200, {"logs": log[: next(lengths)]}
        return 200, job(next(looks), driver_exit_code=3)

    server = JobServer(head(answer))
    chunks = list(server.follow("s1"))
    assert "".join(chunks) == "one\ntwo\nthree\n"


def test_a_cluster_that_does_not_answer_any_more_is_lost(head: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_SECONDS", 0.1)
    server = JobServer(head(lambda *_: (500, "the agent is away")))
    with pytest.raises(ClusterUnreachable):
        list(server.follow("s1"))


def test_the_end_of_a_job_is_its_commands(head: Callable[[Answer], str]) -> None:
    server = JobServer(head(lambda *_: (200, job("FAILED", driver_exit_code=4, message="Job failed\nwith much text"))))
    end = server.end("s1")
    assert end is not None
    assert (end.status, end.code, end.message) == ("FAILED", 4, "Job failed")


def test_submissions_come_oldest_first(head: Callable[[Answer], str]) -> None:
    jobs = [
        job("RUNNING", start_time=2, metadata={"run": "/r"}),
        job("FAILED", submission_id="s0", start_time=1) | {"submission_id": "s0"},
    ]
    server = JobServer(head(lambda *_: (200, jobs)))
    assert [(one.name, one.ended, dict(one.metadata)) for one in server.submissions()] == [
        ("s0", True, {}),
        ("s1", False, {"run": "/r"}),
    ]

"""Hosts on one machine: network namespaces on a bridge, each with a name, processes and mounts of its own, and Ray on each.

Needs root and iproute2. The process that makes them is a host of its own beside them, on the bridge. A host's link can be cut,
all its processes can be killed, files can be hidden from it, its workers can be slowed down. Only processes in the namespaces
made here are ever killed; what a killed maker left is taken away by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen

import yaml

GCS_PORT = 6379
DASHBOARD_PORT = 8265
LINKS = Path("/sys/class/net")

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "cluster.yaml"
WORKER = ROOT / "actors" / "worker.py"


def settings(kind: Literal["head", "worker"]) -> dict[str, str]:
    """How `ray up cluster.yaml` has nodes of a kind watch each other: environment variables."""
    commands = " ".join(yaml.safe_load(LAUNCHER.read_text())[f"{kind}_start_ray_commands"])
    return dict(re.findall(r"(RAY_\w+_ms|RAY_\w+_threshold)=(\d+)", commands))


PATIENCE_SECONDS = 60.0

_PACED = """

_run = Worker.run


def _paced(self, execute, lease):
    begun = time.monotonic()
    outcome = _run(self, execute, lease)
    with open({pace!r}) as pace:
        time.sleep(max(0.0, float(pace.read()) - (time.monotonic() - begun)))
    return outcome


Worker.run = _paced
"""
"""What the hosts' copy of actors/worker.py ends with."""


def unavailable() -> str:
    """Why there can be no hosts here, or ""."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if shutil.which("ip") is None:
        return "needs the command ip (iproute2)"
    probe = f"rp{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return ""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


class Hosts:
    """`count` hosts with `cpus` CPUs each; host 0 is the head. `start` starts Ray on one, `close` takes everything away."""

    def __init__(self, count: int = 3, cpus: int = 2) -> None:
        self.count, self.cpus = count, cpus
        self._tag = f"rh{os.getpid()}"
        sweep()
        self._net = f"10.77.{os.getpid() % 250}"
        self._bridge = f"{self._tag}b"
        self._directory = Path(tempfile.mkdtemp(prefix=f"{self._tag}-", dir="/tmp"))  # short: socket names have 107 characters
        self._started: list[subprocess.Popen[bytes]] = []
        self._shells: dict[int, subprocess.Popen[bytes]] = {}
        self._starts = 0
        self._folders: dict[int, Mapping[Path, Path]] = {}
        self.token = self._directory / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(secrets.token_hex(32))
        self._worker = self._directory / "worker.py"
        self._paced = _PACED.format(pace=str(self._directory / "pace"))
        self._worker.write_text(WORKER.read_text() + self._paced)
        self.pace(0.0)
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{self._net}.1/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for host in range(count):
            ip("netns", "add", self._namespace(host))
            ip("link", "add", self._link(host), "type", "veth", "peer", "name", "eth0", "netns", self._namespace(host))
            ip("link", "set", self._link(host), "master", self._bridge, "up")
            ip("-n", self._namespace(host), "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", self._namespace(host), "link", "set", "eth0", "up")
            ip("-n", self._namespace(host), "link", "set", "lo", "up")

    @property
    def url(self) -> str:
        """Address of the Jobs API."""
        return f"http://{self.address(0)}:{DASHBOARD_PORT}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to be let in."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        # The interpreter that runs the tests comes first, as an installation's environment would.
        return kept | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def address(self, host: int) -> str:
        return f"{self._net}.{10 + host}"

    def show(self, host: int, folders: Mapping[Path, Path]) -> None:
        """From its next start on, a host sees other folders in the place of those that are the keys."""
        self._folders[host] = folders

    def pace(self, seconds: float) -> None:
        """From the next lease on, workers take at least so long for one, however fast the machine is.

        Workers on any host, and those of `paced_runner` beside them.
        """
        new = self._directory / "pace.new"
        new.write_text(str(seconds))
        new.rename(self._directory / "pace")

    def paced_runner(self, *arguments: str | Path) -> list[str]:
        """The command `runner`, whose inline worker keeps the pace."""
        main = f"from runner.cli import main\nmain({[str(argument) for argument in arguments]!r})"
        return [sys.executable, "-c", f"import time\nfrom actors.worker import Worker\n{self._paced}\n{main}"]

    def start(self, *hosts: int) -> None:
        """Start Ray on these hosts, the head first, and wait until each says that it runs."""
        for host in hosts:
            if self._start(host):  # Ray gives a node half a minute, in which an overloaded machine may not start one
                self.kill(host)
                if failed := self._start(host):
                    raise RuntimeError(f"Ray did not start on host {host}:\n{failed}")

    def _start(self, host: int) -> str:
        """Start Ray on a host; returns what it said when it did not start, else ""."""
        self._starts += 1
        temp = self._directory / f"t{self._starts}"
        options = [f"--node-ip-address={self.address(host)}", f"--num-cpus={self.cpus}", f"--object-store-memory={128 << 20}"]
        options += ["--disable-usage-stats", "--block", f"--temp-dir={temp}"]
        if host == 0:
            dashboard = [
                f"--dashboard-host={self.address(0)}",
                f"--dashboard-port={DASHBOARD_PORT}",
                "--include-dashboard=true",
            ]
            options += ["--head", f"--port={GCS_PORT}", *dashboard]
        else:
            options += [f"--address={self.address(0)}:{GCS_PORT}"]
        log = self._directory / f"start{self._starts}.log"
        folders = {WORKER: self._worker, **self._folders.get(host, {})}
        script = [f"hostname host{host}", *(f"mount --bind '{a}' '{b}'" for b, a in folders.items())]
        script.append('exec "$0" "$@"')
        # Ray looks for a machine's raylets among its processes, and would take those of other hosts for its own.
        own = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *options]
        with log.open("wb") as output:
            shell = subprocess.Popen(
                ["ip", "netns", "exec", self._namespace(host), *own, "sh", "-ec", "\n".join(script), *ray],
                env=self.environment | settings("head" if host == 0 else "worker"),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._shells[host] = shell
        self._started.append(shell)
        end = time.monotonic() + PATIENCE_SECONDS
        while "Ray runtime started" not in log.read_text():
            if time.monotonic() > end or shell.poll() is not None:
                return log.read_text()
            time.sleep(0.1)
        return ""

    def popen(
        self, host: int | None, *command: str, environment: Mapping[str, str] | None = None, stdout: object = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """A process on a host on which Ray was started, or beside them for None, in a session of its own."""
        prefix = [] if host is None else ["nsenter", f"--target={self._first(host)}", "--net", "--mount", "--pid", "--uts"]
        return subprocess.Popen(
            [*prefix, *command],
            env=self.environment | dict(environment or {}),
            stdout=stdout,  # type: ignore[call-overload]
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(
        self, host: int | None, *command: str, environment: Mapping[str, str] | None = None, timeout: float = 300
    ) -> tuple[int, str]:
        """(exit code, output) of a process on a host, or beside them for None."""
        process = self.popen(host, *command, environment=environment)
        try:
            output, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return process.returncode, output.decode()

    def _first(self, host: int) -> int:
        """The process that is the first one of a host's own."""
        shell = self._shells[host].pid
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def cut(self, host: int) -> None:
        ip("link", "set", self._link(host), "down")

    def heal(self, host: int) -> None:
        ip("link", "set", self._link(host), "up")

    def pids(self, host: int) -> list[int]:
        return _pids(self._namespace(host))

    def kill(self, *hosts: int) -> None:
        """Kill every process on these hosts at once, as a power cut would."""
        for host in hosts:
            _kill(self._namespace(host))
        for process in self._started:
            process.poll()

    def forget(self, host: int) -> None:
        """Wait until the head takes a worker's host that was killed for dead."""
        token = {"Authorization": f"Bearer {self.token.read_text()}"}
        request = Request(f"{self.url}/nodes?view=hostnamelist&nocache=1", headers=token)
        end = time.monotonic() + PATIENCE_SECONDS
        while f"host{host}" in urlopen(request, timeout=PATIENCE_SECONDS).read().decode():
            if time.monotonic() > end:
                raise RuntimeError(f"host {host} is still alive to the head")
            time.sleep(0.2)

    def logs(self) -> Sequence[Path]:
        """Everything that Ray wrote on any host."""
        return [path for path in self._directory.rglob("*") if path.is_file() and path != self.token and not path.is_symlink()]

    def close(self) -> None:
        for process in self._started:
            process.poll()
        _remove(self._tag)

    def _namespace(self, host: int) -> str:
        return f"{self._tag}h{host}"

    def _link(self, host: int) -> str:
        return f"{self._tag}v{host}"


def _pids(namespace: str) -> list[int]:
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def _kill(namespace: str) -> None:
    while pids := _pids(namespace):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _remove(tag: str) -> None:
    """Take away all hosts of a tag, with their processes, links and files."""
    for namespace in _namespaces():
        if namespace.startswith(f"{tag}h"):
            _kill(namespace)
            subprocess.run(["ip", "netns", "del", namespace], check=False)
    for link in LINKS.glob(f"{tag}[bv]*"):
        subprocess.run(["ip", "link", "del", link.name], check=False, capture_output=True)
    for directory in Path("/tmp").glob(f"{tag}-*"):
        shutil.rmtree(directory, ignore_errors=True)


def sweep() -> None:
    """Take away what is left of hosts whose makers were killed before they could, one that had this process's number included."""
    names = [*_namespaces(), *(path.name for path in (*LINKS.glob("rh*"), *Path("/tmp").glob("rh*")))]
    owners = {int(found[1]) for name in names if (found := re.match(r"rh(\d+)[-hbv]", name))}
    for pid in owners:
        if pid == os.getpid() or not Path(f"/proc/{pid}").exists():
            _remove(f"rh{pid}")


def _namespaces() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines() if line]

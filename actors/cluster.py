"""Ray, started for one run or connected to: environment, temporary directory, token, and an end without leftovers.

An embedded cluster lives and dies with its driver, even by SIGKILL: workers and servers end at once, two idle agents of Ray's
after a minute, or when the next embedded start sweeps them up with the directory (tests/actors/test_cluster.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import grpc
import ray
import ray._private.worker
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray._private.authentication.grpc_authentication_client_interceptor import _get_authentication_metadata_tuple

from actors.watchdog import Watchdog
from schemas.errors import ClusterUnreachable, InvalidInput

OBJECT_STORE_BYTES = 256 << 20
"""Results of a lease pass through it; it is shared memory, claimed as it is used."""

EXIT_SECONDS = 10.0
"""Ray's processes end within about two seconds of a shutdown; after this long they are killed."""

CONNECT_SECONDS = 10.0

TOKEN_PLACES = "RAY_AUTH_TOKEN, the file named by RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token"

_DIRECTORY_PREFIX = "rn-"
_LOCK = "driver.lock"
_AUTH_MODE = "RAY_AUTH_MODE"
_TOKEN = secrets.token_hex(32)  # one a process: Ray reads it once and keeps it


@dataclass(frozen=True)
class Host:
    """A node of a cluster that is alive. cpus: what it hands out, of whatever its machine has."""

    node: str
    address: str
    cpus: int


class Cluster:
    """A cluster this process is connected to. `close` gives it back; an embedded one is gone then, processes and files."""

    def __init__(
        self, directory: Path | None, lock: IO[str] | None, environment: dict[str, str | None], watchdog: Watchdog | None = None
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._environment = environment
        self._watchdog = watchdog

    @classmethod
    def embed(cls, cpus: int) -> Cluster:
        """Start Ray in this process with `cpus` CPUs to hand out. Raises ClusterUnreachable when it does not come up.

        It listens on all interfaces, so token authentication is on, with a token of its own that only this user can read. The
        directory is a short path of its own (socket names have 107 characters), so `ray` commands and other runs do not meet it.
        """
        quieten()
        base = Path(os.environ.get("RAY_TMPDIR", "/tmp")).resolve()
        _sweep(base)
        directory, lock = _locked_directory(base)
        token = directory / "token"
        token.touch(mode=0o600)
        token.write_text(_TOKEN)
        changes = {"RAY_TMPDIR": str(directory), "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        # A token in the environment would come before the one in the file, and every worker would have it there to show.
        unset = (_AUTH_MODE, "RAY_AUTH_TOKEN")
        cluster = cls(directory, lock, {name: os.environ.get(name) for name in (*changes, *unset)})
        os.environ.update(changes)
        for name in unset:  # where the mode is unset, a local start turns tokens on; setting it does nothing after `import ray`
            os.environ.pop(name, None)
        try:
            _init(
                address="local",  # otherwise it looks for other clusters
                include_dashboard=False,
                num_cpus=cpus,
                object_store_memory=OBJECT_STORE_BYTES,
            )
        except Exception as error:
            cluster.close()
            raise ClusterUnreachable(f"embedded Ray did not start: {_first_line(error)}") from error
        servers = {pid: name for pid in _descendants(os.getpid()) if (name := _program(pid)) in ("raylet", "gcs_server")}
        cluster._watchdog = Watchdog(servers, head=None)
        return cluster

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Connect to a running cluster: "auto" or HOST:PORT. Raises ClusterUnreachable when none answers.

        The token is the one Ray finds by itself (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token).
        """
        target = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        if target != "auto":
            require_listener(target)
            _require_token(target)
        quieten()
        try:
            _init(address=address)
        except Exception as error:
            ray.shutdown()
            raise ClusterUnreachable(f"no Ray cluster at {address!r}: {_first_line(error)}") from error
        node: Any = ray._private.worker._global_node
        raylets = dict.fromkeys(_serving(node.raylet_socket_name), "raylet on this host")
        return cls(None, None, {}, Watchdog(raylets, head=ray.get_runtime_context().gcs_address))

    def require(self) -> None:
        """Raises ClusterUnreachable once the cluster is gone: calls to it would wait for ever."""
        if self._watchdog is not None:
            self._watchdog.require()

    def cpus(self) -> int:
        """CPUs of the nodes that are alive."""
        return sum(host.cpus for host in self.hosts())

    def alive_nodes(self) -> set[str]:
        """IDs of the nodes that are alive."""
        return {host.node for host in self.hosts()}

    def hosts(self) -> list[Host]:
        """The nodes that are alive, by address."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        alive = [node for node in nodes if node["Alive"]]
        hosts = [Host(node["NodeID"], node["NodeManagerAddress"], int(node["Resources"].get("CPU", 0))) for node in alive]
        return sorted(hosts, key=lambda host: (host.address, host.node))

    def close(self) -> None:
        """Disconnect; end an embedded cluster, wait until its processes are gone, and remove its directory. Idempotent."""
        children = _descendants(os.getpid()) if self._directory is not None else {}
        if self._watchdog is not None and not self._watchdog.lost:
            self._watchdog.stop()  # before its servers end as they should; it guards the end of a lost cluster only
        ray.shutdown()
        deadline = time.monotonic() + EXIT_SECONDS
        while left := [pid for pid, start in children.items() if _start_time(pid) == start]:
            if time.monotonic() > deadline:
                _kill(left)
                break
            time.sleep(0.02)
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._environment = {}


def available_cpus() -> int:
    """CPUs this process may use: affinity, and the cgroup's quota where there is one, rounded down but at least 1."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, int(quota) // int(period)))


def _init(**options: Any) -> None:
    """ray.init without its output, and without its handler of SIGTERM, which ends the process where it stands."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, configure_logging=False, **options)
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def require_listener(address: str) -> None:
    """Raise ClusterUnreachable unless something listens at HOST:PORT; Ray itself takes a quarter of an hour to say so."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        raise InvalidInput("cluster address", "", repr(address), '"auto" or HOST:PORT')
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterUnreachable(f"nothing answers at {address}: {error.strerror or error}") from None


def _require_token(address: str) -> None:
    """Raise ClusterUnreachable unless the cluster at HOST:PORT takes the token of this process.

    Ray itself says only that it failed to connect, after twenty seconds of complaints on stderr.
    """
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")
        try:
            ask(b"", metadata=_get_authentication_metadata_tuple(), timeout=CONNECT_SECONDS)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                raise ClusterUnreachable(f"{address} wants its token, not the one found: {TOKEN_PLACES}") from None
            raise ClusterUnreachable(f"no Ray cluster at {address}: {error.details()}") from None


def quieten() -> None:
    """Keep Ray from writing to this process's output: what happens to workers is reported as events."""
    # Its warnings are about defaults (token mode, the size of /dev/shm), which are chosen here.
    for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # With `log_to_driver=False` it still prints a paragraph for every dead worker, to standard output, which belongs to --json.
    ray._private.worker._worker_logs_enabled = False


def _locked_directory(base: Path) -> tuple[Path, IO[str]]:
    """A new directory below `base` for one cluster, and its lock, which is held.

    It gets the name by which `_sweep` finds it once the lock is held, never before: no other driver can take it for one that was
    left. A driver killed in between leaves a directory of another name, empty but for the lock.
    """
    new = Path(tempfile.mkdtemp(prefix=f".{_DIRECTORY_PREFIX}", dir=base))
    lock = (new / _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return new.rename(base / new.name.removeprefix(".")), lock


def _sweep(base: Path) -> None:
    """Remove what is left of embedded clusters whose drivers were killed: directories that no driver holds locked any more.

    A lock and not a process ID, which says nothing of drivers in other containers that share the directory.
    """
    for path in base.glob(f"{_DIRECTORY_PREFIX}*/{_LOCK}"):
        try:
            with path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _kill(_processes_writing_to(path.parent))
                shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # held, or not ours
            continue


def _processes_writing_to(directory: Path) -> list[int]:
    """Processes that hold a file below `directory` open for writing, as Ray's hold their logs; readers are not Ray's.

    The lock does not count: drivers open it, and none of them is to be killed.
    """
    found = []
    lock = directory / _LOCK
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if entry.name.isdecimal() and any(
                link.lstat().st_mode & stat.S_IWUSR and link.readlink().is_relative_to(directory) and link.readlink() != lock
                for link in (entry / "fd").iterdir()
            ):
                found.append(int(entry.name))
    return found


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> dict[int, int]:
    """pid -> start time of all processes below `root`; both together name a process even after its pid is reused."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    layer = {root}
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        found |= layer
    return {pid: start for pid in found if (start := _start_time(pid)) is not None}


def _start_time(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None when it is gone or only waits to be reaped."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def _stat(pid: int) -> list[str] | None:
    """/proc/PID/stat from the state on: [state, parent, ...]; the name before it may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _program(pid: int) -> str:
    """Name of the program that a process runs; "" when it is gone."""
    return Path(_arguments(pid)[0]).name


def _serving(socket_name: str) -> list[int]:
    """Raylets of this host that serve a node's socket: one, or none where they run in another container."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and f"--raylet_socket_name={socket_name}" in _arguments(int(entry.name))
    ]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return [""]


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

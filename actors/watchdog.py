"""Whoever drives a cluster must notice that it is gone: Ray's own library waits for ever, or ends the process without a word.

Measured on Ray 2.60: a driver whose raylet was killed waits on; 60 s after the head is gone the process ends with exit code 1.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping

from schemas.errors import ClusterUnreachable

PROBE_SECONDS = 2.0
"""Between two looks at the head, and the longest that one waits."""

HEAD_SECONDS = 40.0
"""The head may be out of reach for this long, as for a cut link; Ray itself would end the process after 60 s."""

GRACE_SECONDS = 30.0
"""A process that has not given its lost cluster back after this long hangs in Ray's library, and is ended."""


class Watchdog:
    """Watches, in a thread, processes on this host and the head of a cluster.

    processes: pid -> what it is. head: HOST:PORT of the head's server where it runs on another host, else None. Whoever uses the
    cluster asks `require` often, and calls `stop` once it has given the cluster back. lost: why the cluster is gone, or "".
    """

    def __init__(self, processes: Mapping[int, str], head: str | None) -> None:
        self._processes = processes
        self._head = head
        self.lost = ""
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raises ClusterUnreachable once the cluster is gone."""
        if self.lost:
            raise ClusterUnreachable(self.lost)

    def stop(self) -> None:
        """Watch no longer. Idempotent."""
        if self._stopped >= 0:
            os.close(self._stopped)
            self._stopped = -1
            self._thread.join()

    def _watch(self) -> None:
        with contextlib.ExitStack() as stack:
            poll = select.poll()
            poll.register(self._stop, select.POLLHUP)
            stack.callback(os.close, self._stop)
            watched = {}
            for pid, name in self._processes.items():
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    self.lost = f"lost the Ray cluster: its {name} is gone"
                    break
                stack.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
                watched[descriptor] = f"its {name} (process {pid}) is gone"
            reached = time.monotonic()
            while not self.lost:
                ended = [descriptor for descriptor, _ in poll.poll(None if self._head is None else PROBE_SECONDS * 1000)]
                if self._stop in ended:
                    return
                if ended:
                    self.lost = f"lost the Ray cluster: {watched[ended[0]]}"
                elif self._head is not None and _listens(self._head):
                    reached = time.monotonic()
                elif time.monotonic() - reached > HEAD_SECONDS:
                    self.lost = f"lost the Ray cluster: its head at {self._head} has not answered for {HEAD_SECONDS:g} s"
            for descriptor in watched:
                poll.unregister(descriptor)
            if not poll.poll(GRACE_SECONDS * 1000):
                _end(self.lost)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _end(reason: str) -> None:
    """End the process from a thread, as its main thread does not come back; everything committed is on disk."""
    with contextlib.suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"runner: {reason}\n".encode())
    os._exit(ClusterUnreachable.exit_code)

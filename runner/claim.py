"""One driver a run: a claim that lives as long as its driver shows signs of life, and is taken over afterwards without a command.

A claim is a record under a number, its epoch, that only one driver can create. The driver renews it by a counter. Whoever wants
the run watches that counter by a clock of its own, so that no two hosts need the same time; on the driver's own machine it is
known at once whether the process lives. A lock on the directory, where the file system knows locks, keeps a second driver of the
machine out even when somebody removes the record.

None of this is what keeps results from counting twice: a driver can be stopped at any moment, be given up, and wake up in the
middle of a write. The journal does (runner.journal).
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from runner.paths import RunPaths
from runner.process import Process, this_process
from runner.storage import Storage
from schemas.errors import RunBusy

HEARTBEAT_SECONDS = 5.0
EXPIRY_SECONDS = 30.0
"""A driver on another machine is given up when it has not renewed its claim for so long."""

_LOOK_SECONDS = 0.5


def _clock() -> float:
    """Seconds that run on while the machine sleeps, during which others may have given this driver up."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class Holder:
    """Who holds a claim. renewed: by its own clock, for people; nothing is decided by it."""

    process: Process
    since: str
    renewed: str

    def __str__(self) -> str:
        if not self.process.pid:
            return "its claim file does not say who"
        text = f"process {self.process.pid} on host {self.process.host} since {self.since}"
        return text if self.process.is_here() else f"{text}, last heard of at {self.renewed}"


_UNNAMED = Holder(Process("", 0, 0, ""), "", "")
"""A live driver whose name is not written yet, or was removed."""


@dataclass(frozen=True)
class _Record:
    """The content of a claim. Its bytes are always as long as they were, since it is renewed in place."""

    owner: str
    holder: Holder
    beat: int
    held: bool

    def to_bytes(self) -> bytes:
        content = {
            "state": "held" if self.held else "free",
            "beat": f"{self.beat:012d}",
            "renewed": self.holder.renewed,
            "since": self.holder.since,
            "owner": self.owner,
            **asdict(self.holder.process),
        }
        return (json.dumps(content) + "\n").encode()

    @classmethod
    def parsed(cls, data: bytes) -> _Record | None:
        """None for what is no record: torn, since it is renewed in place, or damaged."""
        try:
            said = json.loads(data)
            process = Process(str(said["host"]), int(said["pid"]), int(said["started"]), str(said["machine"]))
            holder = Holder(process, str(said["since"]), str(said["renewed"]))
            return cls(str(said["owner"]), holder, int(said["beat"]), said["state"] != "free")
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


class Claim:
    """The claim on a run, held between `with` and its end. Raises RunBusy, naming the holder, when another live driver has it.

    epoch: higher than that of every claim before. notice: is told when it takes a while to see whether another driver lives.
    Implements `runner.store.Tenure`.
    """

    def __init__(self, storage: Storage, paths: RunPaths, *, notice: Callable[[str], None] = lambda text: None) -> None:
        self.epoch = 0
        self._storage = storage
        self._paths = paths
        self._notice = notice
        self._unlock: Callable[[], None] = lambda: None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="claim", daemon=True)
        self._mutex = threading.Lock()
        self._renewed = 0.0
        self._lost = False

    def __enter__(self) -> Self:
        try:
            locked, self._unlock = self._storage.lock(self._paths.root)
        except BlockingIOError:
            found = holder(self._storage, self._paths) or _UNNAMED
            if found is _UNNAMED or found.process.is_here():
                raise self._busy(found) from None
            locked = False  # a lock that holds between machines, too, whose server does not know yet what the counter shows
        try:
            self._acquire(locked)
        except BaseException:
            self._unlock()
            raise
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        try:
            with self._mutex:
                if not self._lost:
                    self._renew(held=False)
        except OSError:
            pass  # it will be found dead
        finally:
            self._unlock()

    def require_held(self, *, look: bool = False) -> None:
        """Raises RunBusy when another driver has taken the run over. Cheap while the claim is renewed as it should be.

        look: look at the claim in any case.
        """
        with self._mutex:
            if not self._lost and (look or _clock() - self._renewed > EXPIRY_SECONDS / 2):
                self._look()  # this process may have been stopped, and given up meanwhile
            lost = self._lost
        if lost:
            now = holder(self._storage, self._paths)
            raise RunBusy(
                f"{self._paths.root}: this driver was given up, and another one works on the run: {now or 'done by now'}"
            )

    def _acquire(self, locked: bool) -> None:
        while True:
            epoch, data = _latest(self._storage, self._paths)
            record = None if data is None else _Record.parsed(data)
            if data is not None and (record is None or record.held):
                self._require_dead(epoch, data, record, locked)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            mine = _Record(uuid.uuid4().hex, Holder(this_process(), now, now), 0, True)
            try:
                self._storage.create(self._paths.claim(epoch + 1), mine.to_bytes(), read_only=False)
            except FileExistsError:
                continue  # somebody was faster, and lives
            self.epoch, self._record = epoch + 1, mine
            self._renewed = _clock()
            for name in self._storage.names(self._paths.claims):
                if name < self._paths.claim(self.epoch).name:
                    self._storage.remove(self._paths.claims / name)
            return

    def _require_dead(self, epoch: int, data: bytes, record: _Record | None, locked: bool) -> None:
        """Return once it is plain that the holder is dead. Raises RunBusy as soon as it shows signs of life."""
        found = _UNNAMED if record is None else record.holder
        if found.process.is_here():
            # A live driver of this machine would hold the lock; without locks, its process tells.
            if locked or not found.process.is_alive():
                return
            raise self._busy(found)
        self._notice(f"{self._paths.root}: waiting up to {EXPIRY_SECONDS:.0f} s to see whether another driver lives: {found}")
        deadline = time.monotonic() + EXPIRY_SECONDS
        while time.monotonic() < deadline:
            time.sleep(min(_LOOK_SECONDS, EXPIRY_SECONDS / 10))
            latest, now = _latest(self._storage, self._paths)
            after = None if now is None else _Record.parsed(now)
            if latest == epoch and (now is None or (after is not None and not after.held)):
                return  # given up properly meanwhile
            if (latest, now) != (epoch, data):
                raise self._busy(found if after is None else after.holder)

    def _busy(self, found: Holder) -> RunBusy:
        return RunBusy(f"{self._paths.root}: another driver works on this run: {found}")

    def _keep_renewing(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            with self._mutex:
                try:
                    self._look()
                except OSError:
                    continue  # a storage that does not answer now may do so next time
            if self._lost:
                return

    def _look(self) -> None:
        """Renew the claim, or find that it is lost."""
        epoch, data = _latest(self._storage, self._paths)
        now = None if data is None else _Record.parsed(data)
        if epoch > self.epoch or (epoch == self.epoch and now is not None and now.owner != self._record.owner):
            self._lost = True
            return
        if epoch < self.epoch or data is None:  # somebody removed it, and nobody has the run for that
            self._storage.create(self._paths.claim(self.epoch), self._record.to_bytes(), read_only=False)
        self._renew(held=True)

    def _renew(self, *, held: bool) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = replace(self._record, beat=self._record.beat + 1, held=held, holder=replace(self._record.holder, renewed=now))
        self._storage.overwrite(self._paths.claim(self.epoch), record.to_bytes())
        self._record = record
        self._renewed = _clock()


def holder(storage: Storage, paths: RunPaths) -> Holder | None:
    """The driver that has the run, or None. One on another machine, of which nobody here can know more, counts as alive."""
    data = _latest(storage, paths)[1]
    record = None if data is None else _Record.parsed(data)
    if storage.is_locked(paths.root):
        return record.holder if record is not None and record.held else _UNNAMED
    if record is None or not record.held:
        return None
    here = record.holder.process.is_here()
    return record.holder if not here or record.holder.process.is_alive() else None


class Onlooker:
    """Looks again and again who has a run. A driver on another machine is gone once its claim stood still for EXPIRY_SECONDS."""

    def __init__(self, storage: Storage, paths: RunPaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self._paths = paths
        self._clock = clock
        self._seen: Holder | None = None
        self._since = clock()

    def holder(self) -> Holder | None:
        """As `holder`, and None once the last look that saw a sign of life is too long ago."""
        found = holder(self._storage, self._paths)
        if found != self._seen:
            self._seen, self._since = found, self._clock()
        if found is None or found is _UNNAMED or found.process.is_here():
            return found
        return found if self._clock() - self._since <= EXPIRY_SECONDS else None


def _latest(storage: Storage, paths: RunPaths) -> tuple[int, bytes | None]:
    """Epoch and content of the latest claim; 0 and None when there is none."""
    for name in reversed(storage.names(paths.claims)):
        number = name.partition(".")[0]
        if number.isdecimal() and paths.claim(int(number)).name == name:
            try:
                return int(number), storage.read(paths.claims / name)
            except FileNotFoundError:
                return int(number), None
    return 0, None

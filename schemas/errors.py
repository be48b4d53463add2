"""Errors a user can cause, each with the exit code the command line ends with.

RunnerError
├── InvalidInput            2   a job file, catalog, option or checkpoint that cannot be used
├── UnitsFailed             3   the run ended, some units are quarantined
├── ConformanceFinding      4   equal work gave different bits
├── RunBusy                 5   another driver holds the run
└── ClusterUnreachable     75   no cluster answers at the address

Anything else that escapes is a bug and shows its traceback (exit 1).
"""

from __future__ import annotations


def visible(text: str) -> str:
    """The text in one line that a terminal prints and does not obey: control and other unprintable characters are escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class RunnerError(Exception):
    """Base of all expected errors. `str()` is one line; `as_dict()` is what `--json` prints."""

    exit_code = 1

    def as_dict(self) -> dict[str, object]:
        return {"error": type(self).__name__, "message": str(self), "exit_code": self.exit_code}


class InvalidInput(RunnerError):
    """Input that cannot be used: which file, which key in it, what was found, what is allowed."""

    exit_code = 2

    def __init__(self, file: str, key: str, found: str, allowed: str) -> None:
        self.file, self.key, self.found, self.allowed = file, key, found, allowed
        where = f"{file}: {key}" if key else file
        super().__init__(visible(f"{where}: found {found}, allowed: {allowed}"))

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str, str, str]]:
        """Travels between processes: an exception is rebuilt from `args`, which hold the message only."""
        return type(self), (self.file, self.key, self.found, self.allowed)

    def as_dict(self) -> dict[str, object]:
        return super().as_dict() | {"file": self.file, "key": self.key, "found": self.found, "allowed": self.allowed}


class UnitsFailed(RunnerError):
    """The run ended and everything that could be done is done, but some units failed for good."""

    exit_code = 3


class ConformanceFinding(RunnerError):
    """The same unit gave different bytes, or a check that must hold on any checkpoint does not."""

    exit_code = 4


class RunBusy(RunnerError):
    """Another live driver works on this run directory."""

    exit_code = 5


class ClusterUnreachable(RunnerError):
    """No cluster could be reached or started."""

    exit_code = 75

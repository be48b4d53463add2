"""A directory that a user names for a run: can there be a run in it at all?"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path, PurePath

from runner.paths import RunPaths
from schemas.errors import InvalidInput

ALLOWED = "a run's directory"


def run_directory(root: PurePath) -> RunPaths:
    """Paths of the run at `root`: in an object store, or in a directory that can be read, or is not there and can be made.

    Raises InvalidInput for anything else: a file, a path through a file, a link to nothing, a circle of links, a name that is too
    long, a directory that this user may not look into, or that everybody may write to: its plans and results could be anybody's.
    """
    if not isinstance(root, Path):
        return RunPaths(root)
    try:
        mode = _mode(root)
    except OSError as error:
        raise InvalidInput(str(root), "", str(error.strerror).lower(), ALLOWED) from None
    if mode is None:
        return RunPaths(root)
    if not stat.S_ISDIR(mode):
        raise InvalidInput(str(root), "", "a file", ALLOWED)
    if not os.access(root, os.R_OK | os.X_OK):
        raise InvalidInput(str(root), "", "permission denied", f"{ALLOWED}, which this user may read")
    if mode & stat.S_IWOTH:
        found, allowed = f"mode {stat.S_IMODE(mode):04o}", f"{ALLOWED}, to which not everybody may write"
        raise InvalidInput(str(root), "", found, allowed)
    return RunPaths(root)


def _mode(root: Path) -> int | None:
    """Mode of what is at `root`; None where nothing is and a directory can be. Raises OSError where neither holds."""
    with contextlib.suppress(FileNotFoundError):
        return root.stat().st_mode
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in missing:
        if path.is_symlink():
            raise InvalidInput(str(path), "", "a link to nothing", ALLOWED)
        with contextlib.suppress(FileNotFoundError):
            (missing[-1].parent / path.name).lstat()  # a name may be too long for its file system
    return None
